"""Two-point averages E[f(u) g(v)] of pairs of activations: closed forms, sums, tables and their prices.

Everything else of the model uses them through `two_point`. Imports `numerics` and the activations.
"""
