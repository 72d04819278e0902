"""Sweeps that grow: the states from which runs continue, and the rounds in which stored results decide.

Pure functions of a plan and of values. What is stored of them is in `store`, what is done in `execution`.
"""
