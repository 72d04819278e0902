"""Benchmarks of speed and accuracy against plain implementations: `python -m benchmarks`."""
