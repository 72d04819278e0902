"""The index of runs, `<id>.index.parquet`: the runs of a sweep with their parameters and summaries.

It is derived from the spec and the dataset, and rebuilt when it does not belong to them or is damaged.
"""
