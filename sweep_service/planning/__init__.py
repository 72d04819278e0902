"""Planning of a sweep before anything is stored: spec, designs, grid, runs, jobs, bundles, and their cost.

Pure functions of a spec: this package neither reads nor writes data files, except that a spec may be loaded
from a file. It imports `simulators` and the packages above it.
"""
