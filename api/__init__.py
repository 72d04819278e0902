"""The service: the application, security and limits, the thread of the conductor, and the page.

Imported as `sweep_service.api`; the routes are in `routes`. Imports the core and `sweep_service.workers`.
"""
