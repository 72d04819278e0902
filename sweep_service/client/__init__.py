"""A service from Python: the REST client with its retries, `open`, and the progress bar.

Imports nothing of this package but `errors` and `text` until a call needs more.
"""
