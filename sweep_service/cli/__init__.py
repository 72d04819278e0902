"""The command `sweep`: one module per group of commands; `app` puts them together and handles errors.

The only package of the core that may import `api` and `workers`, and only inside functions, so that
`sweep --help` is quick.
"""
