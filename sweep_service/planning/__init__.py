"""What a sweep is, before anything is stored: spec, designs, grid, runs, jobs, bundles, and their cost.

Pure functions of a spec: nothing here reads or writes files. Imports `simulators` and what is above it.
"""
