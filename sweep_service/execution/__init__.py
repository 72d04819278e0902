"""How a sweep gets done: submission, the conductor's loop, tasks, computation, and the merge into the store.

Executors decide where tasks run; the one that uses Dask is in `workers`. Imports `store` and what is
above it.
"""
