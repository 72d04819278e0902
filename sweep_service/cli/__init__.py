"""The command `sweep`: one module per group of commands; `app` registers them and handles errors.

Commands may import `api` and `workers`, but only inside functions, so that `sweep --help` stays fast.
"""
