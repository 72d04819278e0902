"""The REST routes and the pages, one module per group, each with a `router`."""
