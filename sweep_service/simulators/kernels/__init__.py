"""Building blocks of compiled simulators: random streams, activations, rows of vectors, coefficients.

They know nothing of simulators, which are their only users. Imports `model` and `numerics`.
"""
