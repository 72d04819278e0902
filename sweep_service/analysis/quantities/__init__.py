"""Quantities measured on a stored sweep: final risks, discrepancies, plateaus, floors, collapses, phases.

Each module defines one quantity as a function of a dataset, with errors over seeds where they apply.
"""
