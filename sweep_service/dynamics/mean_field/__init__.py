"""Mean field: flows of (M, q, a), in O(p²) over pairs of neurons or in O(p) over nodes of λ*."""
