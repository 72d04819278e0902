"""Exact one-pass SGD: the simulators, the rule that selects one, their random streams and checkpoints.

`simulate` is the public entry. Imports `dynamics`, `model` and `numerics`.
"""
