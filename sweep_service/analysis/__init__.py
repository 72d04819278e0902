"""`ds.sweep`: selections, values, phase diagrams and views of a stored sweep, their plots, and exports.

Works on plain xarray datasets, wherever they were opened. Imports `sweeps` and what is above it; `store` and
`execution` are not needed.
"""
