"""Exact one-pass SGD: four simulators with one law and one public call."""
