"""The physical model: points, activations, teachers, starts, overlaps, the risk and the observables.

Everything here is a function of parameters and overlaps; nothing moves in time. Imports `numerics`.
"""
