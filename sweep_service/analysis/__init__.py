"""`ds.sweep`: selection, quantities, phase diagrams, views, plots and export of a stored sweep.

The functions work on plain xarray datasets, however they were opened, and need neither `store` nor
`execution`.
"""
