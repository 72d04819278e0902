"""The REST routes and the pages, one module per group. Each has a `router` that the application includes."""
