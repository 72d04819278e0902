"""The Dask side: clusters and connections, the executor, what runs on a worker, and the worker's checks.

Imported as `sweep_service.workers`. Imports the core, never `sweep_service.api`.
"""
