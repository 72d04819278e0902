"""Drawing of views with matplotlib, one module per kind of figure; `save` writes files.

Drawing functions take the result of an analysis and compute nothing themselves.
"""
