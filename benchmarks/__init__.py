"""Speed and accuracy against plain implementations of the same equations: `python -m benchmarks`."""
