"""How views are drawn with matplotlib, one kind of figure per module; `save` writes the files.

Drawing functions take what an analysis has found and compute nothing themselves.
"""
