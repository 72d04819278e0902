"""Execution of sweeps: submission, the loop of the conductor, tasks, computation, and merging into the store.

Executors decide where tasks run; the one that uses Dask is in `workers`. This package imports `store` and the
packages above it.
"""
