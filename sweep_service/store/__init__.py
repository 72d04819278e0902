"""Storage of sweeps on a disk or in a bucket: the data folder, the Zarr dataset, parts, ledger and locks.

This package stores values and does not know how they are computed. It imports `planning` and the packages
above it.
"""
