"""Sweeps on disk: objects, the labelled dataset, parts and their merger, the ledger."""
