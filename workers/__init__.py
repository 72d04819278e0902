"""Dask: clusters and connections, the executor, the code that runs on workers, and the worker check.

Imported as `sweep_service.workers`. Imports the core, never `sweep_service.api`.
"""
