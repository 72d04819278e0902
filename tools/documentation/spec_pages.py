"""The reference of a sweep spec, from its JSON schema and the registry of parameters."""

from __future__ import annotations

import json
from typing import Any

from tools.documentation.schemas import describe_type, write_fields

INTRODUCTION = """# Fields of a spec

Every field of a [sweep spec](../sweeps.md), from its JSON schema: [spec.schema.json](spec.schema.json), which
editors can use to complete and check a spec. [Sweeps](../sweeps.md) explains the fields with examples.

"""
PARAMETERS = """## Parameters

Each parameter is either an axis in `axes` or one value in `fixed`. A value of an axis is a number or a text,
a list of them, or evenly spaced numbers, [Spaced](#spaced).

| parameter | type | default | meaning |
|---|---|---|---|
"""


def _schema() -> dict[str, Any]:
    from sweep_service.planning.spec import SweepSpec

    return SweepSpec.model_json_schema()


def write_schema() -> str:
    """Return the JSON schema of a spec as text."""
    return json.dumps(_schema(), indent=1)


def write_spec_page() -> str:
    """Return the page of all fields, parameters and nested objects of a spec."""
    schema = _schema()
    definitions = schema.pop("$defs", {})
    nested = "".join(
        f"## {name}\n\n{item.get('description') or item.get('title', '')}\n\n{write_fields(item)}\n"
        for name, item in definitions.items()
    )
    return f"{INTRODUCTION}{write_fields(schema)}\n{PARAMETERS}{_write_parameters(schema)}\n{nested}"


def _write_parameters(schema: dict[str, Any]) -> str:
    from sweep_service.model.parameters import PARAMETERS as registry

    fields = schema["properties"]["fixed"]["properties"]
    return "".join(
        f"| `{name}` | {describe_type(fields[name])} | {_write_default(parameter.default)} "
        f"| {parameter.long_name} |\n"
        for name, parameter in registry.items()
    )


def _write_default(default: Any) -> str:
    return "" if default is None else f"`{default}`"
