"""The service: REST over the conductor, and the doors in front of it."""
