"""The reference of the REST routes, from the OpenAPI document of the service."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any

from tools.documentation.schemas import describe_type, write_fields

Json = Mapping[str, Any]
PROBLEM_TYPE = "application/problem+json"
INTRODUCTION = """# REST routes

Every route with its parameters and responses, from the OpenAPI document of the service:
[openapi.json](openapi.json). [REST](../rest.md) explains how to use them, and a running service shows the
same document at `/docs`, where each route can be tried. The files of a dataset are served at
`/v1/sweeps/{id}/zarr/{path}`, and the Dask dashboard at `/dask/`.

"""


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of a service, which is not started."""
    from sweep_service.api.app import create_app
    from sweep_service.api.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        return create_app(Settings(data=folder)).openapi()


def write_openapi() -> str:
    """Return the OpenAPI document as text."""
    return json.dumps(openapi(), indent=1)


def write_rest_page() -> str:
    """Return the page of all routes and of the schemas that they name."""
    document = openapi()
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            (tag,) = operation["tags"]
            by_tag.setdefault(tag, []).append(_write_route(method, path, operation))
    routes = "".join(f"## {tag.capitalize()}\n\n{''.join(texts)}" for tag, texts in by_tag.items())
    return f"{INTRODUCTION}{_write_common_errors(document)}{routes}{_write_schemas(document)}"


def _write_route(method: str, path: str, operation: Json) -> str:
    lines = [f"### `{method.upper()} {path}`", "", operation.get("description", ""), ""]
    if parameters := operation.get("parameters"):
        lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
        lines += [_write_parameter(parameter) for parameter in parameters] + [""]
    if body := operation.get("requestBody"):
        content = body["content"]
        schema = next(iter(content.values())).get("schema", {})
        lines += [f"Body: {describe_type(schema)}, as {' or '.join(f'`{kind}`' for kind in content)}.", ""]
    lines += ["| status | response |", "|---|---|"]
    common = find_common_errors(openapi())
    for status, response in operation["responses"].items():
        if status not in common:
            lines.append(f"| {status} | {_describe_response(response)} |")
    return "\n".join(lines) + "\n\n"


def _write_parameter(parameter: Json) -> str:
    schema = parameter.get("schema", {})
    kind = describe_type(schema) + (", required" if parameter.get("required") else "")
    if schema.get("default") not in (None, ""):
        kind += f", default `{json.dumps(schema['default'])}`"
    meaning = parameter.get("description", "").replace("|", "\\|").replace("\n", " ")
    return f"| `{parameter['name']}` | {parameter['in']} | {kind} | {meaning} |"


def _describe_response(response: Json) -> str:
    kinds = [
        describe_type(content["schema"])
        for content in response.get("content", {}).values()
        if content.get("schema")
    ]
    text = response["description"].replace("|", "\\|")
    return f"{text}: {' or '.join(kinds)}" if kinds else text


def find_common_errors(document: Json) -> dict[str, str]:
    """Return the statuses, with their meanings, that nearly every route may answer."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    counts: dict[str, int] = {}
    meanings: dict[str, str] = {}
    for operation in operations:
        for status, response in operation["responses"].items():
            if PROBLEM_TYPE in response.get("content", {}):
                counts[status] = counts.get(status, 0) + 1
                meanings.setdefault(status, response["description"])
    return {status: meanings[status] for status in sorted(counts) if counts[status] > 0.9 * len(operations)}


def _write_common_errors(document: Json) -> str:
    rows = "".join(f"| {status} | {text} |\n" for status, text in find_common_errors(document).items())
    return (
        "## Errors\n\nErrors are `application/problem+json` with the schema [Problem](#problem). "
        "Every route, except for the checks of health, may answer:\n\n"
        f"| status | meaning |\n|---|---|\n{rows}\n"
    )


def _write_schemas(document: Json) -> str:
    schemas = document["components"]["schemas"]
    texts = []
    for name in sorted(schemas):
        schema = schemas[name]
        about = schema.get("description", "").replace("\n", " ")
        texts.append(f"### {name}\n\n{about}\n\n{write_fields(schema)}\n")
    return "## Schemas\n\n" + "".join(texts)
