"""The limiting theories: regimes as sums of terms, their flows, and the integrators that solve them.

`integrate` is the public function. Imports `model` and `numerics`.
"""
