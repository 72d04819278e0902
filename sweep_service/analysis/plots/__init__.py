"""Figures of what the analysis finds, at the size of a column; nothing here uses pyplot."""
