"""The atlas: all runs of a data folder or a service as one table, for datasets and diagrams of them."""
