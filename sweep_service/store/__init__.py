"""What a sweep leaves on a disk or in a bucket: the data folder, the Zarr dataset, parts, ledger and locks.

It stores what it is given and knows nothing of how that is computed. Imports `sweeps` and what is above it.
"""
