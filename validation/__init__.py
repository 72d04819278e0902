"""Numbers of the package beside independent ones: `python -m validation` writes `docs/validation.md`."""
