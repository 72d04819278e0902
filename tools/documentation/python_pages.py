"""The reference of the Python interface: what mkdocstrings shall show, in which order."""

from __future__ import annotations

import inspect

FUNCTIONS_INTRODUCTION = """# Functions

`import sweep_service as ss` gives these names; everything else is internal and may change.

"""
CLIENT_INTRODUCTION = """# Client

The Python client of a service. [REST](../rest.md) describes the fields of what its methods return.
`ss.AsyncClient` has the same methods, to be awaited.

"""
ACCESSOR_INTRODUCTION = """# Accessor `ds.sweep`

`import sweep_service` registers `ds.sweep` on every xarray dataset. [Analysis](../analysis.md) defines the
results. The dataset is a stored sweep, or a result of `ss.simulate` or `ss.integrate`. A `source` is `sgd`,
the name of a regime, or `ode` for all regimes; by default `sgd`, or `ode` if the dataset has no SGD.

"""
ATLAS_INTRODUCTION = """# Atlas

What `ss.atlas` returns for a data folder or a service. [The atlas](../atlas.md) explains it with examples.

"""
ERROR_INTRODUCTION = """# Errors

Every error that this package raises on purpose is a `SweepError`. The classes are in `sweep_service.errors`;
bad input also is a `ValueError`. Numerical divergence is no error but a status that is stored like a result.

```text
{tree}
```

"""


def write_function_page() -> str:
    """Return the page of the functions of `sweep_service`."""
    import sweep_service

    functions = [
        name for name in sweep_service.__all__ if inspect.isfunction(getattr(sweep_service, name, None))
    ]
    return FUNCTIONS_INTRODUCTION + "".join(
        _show(getattr(sweep_service, name), f"ss.{name}") for name in functions
    )


def write_client_page() -> str:
    """Return the page of `ss.Client`."""
    from sweep_service.client.client import Client

    verbs = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]
    introduction = _directive("sweep_service.client.client.Client", "ss.Client", "      members: false\n")
    shown = "".join(_show(getattr(Client, name), f"client.{name}") for name in verbs)
    return CLIENT_INTRODUCTION + introduction + shown


def write_accessor_page() -> str:
    """Return the page of the methods of `ds.sweep`."""
    from sweep_service.analysis.accessor import METHODS

    return ACCESSOR_INTRODUCTION + "".join(
        _show(function, f"ds.sweep.{name}") for name, function in METHODS.items()
    )


def write_atlas_page() -> str:
    """Return the page of the atlas."""
    return ATLAS_INTRODUCTION + _directive("sweep_service.analysis.atlas.atlas.Atlas", "Atlas")


def write_error_page() -> str:
    """Return the page of the errors: their tree, and the ones that `sweep_service` names."""
    import sweep_service
    from sweep_service import errors

    tree = (errors.__doc__ or "").split("\n\n")[1]
    names = [name for name in sweep_service.__all__ if inspect.isclass(getattr(sweep_service, name))]
    shown = "".join(
        _show(getattr(sweep_service, name), f"ss.{name}")
        for name in names
        if issubclass(getattr(sweep_service, name), errors.SweepError)
    )
    return ERROR_INTRODUCTION.format(tree=tree) + shown


def _show(item: object, heading: str) -> str:
    return _directive(f"{item.__module__}.{item.__qualname__}", heading)  # type: ignore[attr-defined]


def _directive(path: str, heading: str, options: str = "") -> str:
    return f'::: {path}\n    options:\n      heading: "{heading}"\n      toc_label: "{heading}"\n{options}\n'
