"""The physical model: points, activations, teachers, starts, overlaps, the risk and the observables.

Everything here is a function of parameters and overlaps; there is no time evolution. Imports `numerics`.
"""
