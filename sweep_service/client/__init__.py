"""The REST client with its retries, `open`, and the progress bar.

Imports only `errors` and `text` of this package until a call needs more.
"""
