"""All points of a grid at once, as columns: groups of equal points, checks, warnings, costs, jobs.

A grid may have a million points, so that nothing here works point by point unless the points differ in
everything that matters.
"""
