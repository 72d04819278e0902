"""The Dask side: bundles as tasks on an embedded cluster, or on a scheduler that is there already."""
