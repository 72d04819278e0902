"""Exact one-pass SGD: the simulators, the rule that chooses one, their random streams and checkpoints.

`simulate` is the public function. Imports `dynamics`, `model` and `numerics`.
"""
