"""Numerical tools without physics: array types, compilation, SIMD lanes, vector functions, BLAS threads.

Imports nothing else of this package.
"""
