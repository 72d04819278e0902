"""The right to change a data folder, which one process at a time has: a file lock, or a lease in a bucket."""
