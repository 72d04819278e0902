"""Comparison of two sweeps at the points that both have."""
