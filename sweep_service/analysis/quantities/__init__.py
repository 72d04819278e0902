"""What can be measured on a stored sweep: final risks, discrepancies, plateaus, floors, collapses, phases.

One quantity per module, each a function of a dataset, with its errors over seeds where it has any.
"""
