"""Optional packages: which extra of this distribution installs each, and the error where one is missing.

The core computes points and sweeps in one process and analyses them. What else a sweep may need is imported
where it is used, below `explain_missing_package`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from sweep_service.errors import MissingPackage

DISTRIBUTION = "sweep-service"
# The smallest extra that installs a package, by the name under which the package is imported.
EXTRAS = {
    "dask": "run",
    "distributed": "run",
    "cloudpickle": "run",
    "tornado": "run",
    "cryptography": "run",
    "httpx2": "client",
    "fsspec": "client",
    "aiohttp": "client",
    "h5netcdf": "export",
    "pyarrow": "export",
    "obstore": "serve",
    "fastapi": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "uvloop": "serve",
    "websockets": "serve",
    "pydantic_settings": "serve",
    "prometheus_client": "serve",
    "jinja2": "serve",
    "bokeh": "serve",
}


def is_installed(name: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return find_spec(name) is not None


def require_package(name: str, purpose: str, alternative: str) -> None:
    """Raise the error of a missing package without importing it."""
    if not is_installed(name):
        raise MissingPackage(f"{_describe(purpose, name)}, {alternative}")


@contextmanager
def explain_missing_package(purpose: str) -> Iterator[None]:
    """Name the extra to install if an import in this block fails because one of its packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingPackage(_describe(purpose, package)) from None


def _describe(purpose: str, package: str) -> str:
    advice = f"pip install '{DISTRIBUTION}[{EXTRAS[package]}]'"
    return f"{purpose} needs {package}, which is not installed: {advice}"
