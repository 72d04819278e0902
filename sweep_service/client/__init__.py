"""The REST client with its retries, `open`, and the progress bar.

Imports only `errors` and `text` of this package until a call needs more.
"""

DEFAULT_URL = "http://127.0.0.1:8000"  # of `sweep serve`
