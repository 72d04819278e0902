"""JSON schemas as Markdown: the type of a value in words, and the fields of an object as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "maxLength": "up to {} characters",
    "minItems": "at least {} items",
    "maxItems": "up to {} items",
}
MAX_CHOICES = 12  # of an enumeration that are listed


def describe_type(schema: Json) -> str:
    """Return the type of a value in words, with a link to a named schema and with its bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(describe_type(option) for option in schema[key]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        choices = ", ".join(f"`{choice}`" for choice in schema["enum"][:MAX_CHOICES])
        return choices + (", …" if len(schema["enum"]) > MAX_CHOICES else "")
    return _describe_plain_type(schema)


def _describe_plain_type(schema: Json) -> str:
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        kind = " or ".join(kind)
    if kind == "array":
        kind = f"list of {describe_type(schema['items'])}" if schema.get("items") else "list"
    bounds = [text.format(f"{schema[key]:g}") for key, text in BOUNDS.items() if key in schema]
    return f"{kind} ({', '.join(bounds)})" if bounds else kind


def write_fields(schema: Json) -> str:
    """Return a table of the fields of an object, or its type where it has none."""
    properties = schema.get("properties")
    if not properties:
        return f"{describe_type(schema)}\n"
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, field in properties.items():
        default = "required" if name in schema.get("required", ()) else ""
        if "default" in field:
            default = f"`{json.dumps(field['default'])}`"
        meaning = field.get("description", "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{name}` | {describe_type(field)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"
