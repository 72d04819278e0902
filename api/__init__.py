"""The service: the application, security and limits, the conductor's thread, and the web page.

Imported as `sweep_service.api`; the routes are in `routes`. Imports the core and `sweep_service.workers`.
"""
