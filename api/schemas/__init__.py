"""Parts of the OpenAPI document that FastAPI cannot derive: models of views, and their open parameters."""
