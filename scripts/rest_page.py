"""Writes docs/reference/rest.md from the OpenAPI document: ``make docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flott.rest.app import all_endpoints
from flott.rest.openapi import document

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "rest.md"

HEAD = """# REST API

A JobManager serves Flink's paths and JSON shapes, so that tools written for Flink work with it. `make docs` generates
this page from the tables that serve the requests. `/openapi.json` describes the API as OpenAPI 3.1.

- Every path may begin with `/v1`. A slash at its end is ignored.
- An error is an object with the single key `errors`, a list of texts. A malformed request is answered with 400, an
  unknown path, method, job or id with 404, an order to a job that has ended with 409, too large a body with 413.
- Ids of jobs, vertices and triggers have 32 hexadecimal digits. Times are milliseconds since 1970, durations
  milliseconds. A time that has not been reached is -1. A number that is not finite is the text `"NaN"`.
- A long operation returns a `request-id`. Its outcome is available under that id for `rest.async.store-duration`. A
  failure is reported there, not by the trigger request. A body may contain its own `triggerId`: a repeated request with
  the same id does not start the operation again.
- With `flott.rest.token`, every request needs the header `Authorization: Bearer …`, or the cookie of a browser that has
  logged in. With the cookie or without a token, orders of web pages from another origin are refused.
- Answers for live pages have an `ETag` and the JobManager's clock in `X-Flott-Now`. A request with `If-None-Match` is
  answered with 304 if nothing has changed.
"""

#: The sections of the page in their order.
SECTIONS = {
    "cluster": "Cluster", "jobs": "Jobs", "vertices": "Vertices and subtasks", "checkpoints": "Checkpoints",
    "live": "Live pages", "state": "State and records", "orders": "Orders", "savepoints": "Savepoints",
    "programs": "Programs", "sql": "SQL sessions", "logs": "Logs",
    "jobmanager": "JobManager", "taskmanagers": "Task managers", "applications": "Applications",
    "session": "Log-in of browsers", "flott": "For Flott's own clients",
}  # fmt: skip

FORMS = {"application/json": "", "text/plain": "text", "text/html": "a page", "application/octet-stream": "bytes"}


def page() -> str:
    """The whole page."""
    described = document(all_endpoints())
    schemas: dict[str, Any] = described["components"]["schemas"]
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((path, method.upper(), operation))
    tags = sorted(by_tag, key=list(SECTIONS).index)
    sections = [HEAD, *(line for tag in tags for line in _contents(SECTIONS[tag], by_tag[tag]))]
    for tag in tags:
        sections.append(f"\n## {SECTIONS[tag]}\n")
        sections += ["".join(_endpoint(*row, schemas)) for row in by_tag[tag]]
    return "".join([*sections, *_shapes(described, schemas)])


def _contents(title: str, rows: list[tuple[str, str, dict[str, Any]]]) -> Iterator[str]:
    yield f"\n| {title.lower() if title != 'JobManager' else title} | |\n| --- | --- |\n"
    for path, method, operation in rows:
        heading = _heading(path, method)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        yield f"| [`{heading}`](#{anchor}) | {operation['summary']} |\n"


def _heading(path: str, method: str) -> str:
    return f"{method} {path.replace('{', ':').replace('}', '')}"


def _shapes(described: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    """The objects inside of others, by the names that were used for them above."""
    yield "\n## Shapes\n\nThe objects inside of answers and bodies.\n\n| shape | fields |\n| --- | --- |\n"
    outer = {reference for path in described["paths"].values() for reference in _references(path, deep=False)}
    inner = {reference for schema in schemas.values() for reference in _references(schema)}
    inner |= {reference for path in described["paths"].values() for reference in _references(path)} - outer
    for name in sorted(inner):
        fields = ", ".join(_fields(schemas[name], schemas)) or _kind(schemas[name])
        yield f"| {name} | {fields} |\n"


def _references(node: Any, deep: bool = True) -> set[str]:
    """The names of the schemas it refers to; not ``deep``: those that are a whole answer or body."""
    if isinstance(node, list):
        return set().union(*(_references(item, deep) for item in node))
    if not isinstance(node, dict):
        return set()
    if not deep and "schema" in node:
        schema = node["schema"].get("items", node["schema"])
        return {schema["$ref"].rpartition("/")[2]} if "$ref" in schema else set()
    own = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
    return own.union(*(_references(value, deep) for value in node.values()))


def _endpoint(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    yield f"\n### `{_heading(path, method)}`\n\n{operation['summary']}.\n"
    queries = [parameter for parameter in operation["parameters"] if parameter["in"] == "query"]
    if queries:
        yield "\n| query | value | meaning |\n| --- | --- | --- |\n"
        yield from (f"| `{query['name']}` | {_value(query)} | {query['description']} |\n" for query in queries)
    for form, content in operation.get("requestBody", {}).get("content", {}).items():
        fields = list(_fields(content["schema"], schemas))
        if fields:
            yield f"\n{'Parts of the form' if form.startswith('multipart') else 'Body'}: {', '.join(fields)}\n"
        else:
            yield f"\nBody: {_kind(content['schema'])}\n"
    status, reply = next(iter(operation["responses"].items()))
    [(form, content)] = reply["content"].items()
    fields = list(_fields(content["schema"], schemas))
    shown = FORMS[form] or (", ".join(fields) if fields else _kind(content["schema"], schemas))
    if fields and content["schema"].get("type") == "array":
        shown = f"a list of objects with {shown}"
    yield f"\nAnswer {status}: {shown}\n"


def _value(query: dict[str, Any]) -> str:
    schema = query["schema"]
    kind = " or ".join(f"`{choice}`" for choice in schema["enum"]) if "enum" in schema else _kind(schema)
    if query["required"]:
        return f"{kind}, required"
    return f"{kind}, default `{schema['default']}`" if "default" in schema else kind


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    """The fields of an object, or of the objects in a list; those that may be missing have a question mark."""
    found = _resolved(schema, schemas)
    if found.get("type") == "array":
        found = _resolved(found.get("items", {}), schemas)
    required = set(found.get("required", ()))
    for name, field in found.get("properties", {}).items():
        yield f"`{name}`{'' if name in required else '?'} {_kind(field)}"


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _kind(schema: dict[str, Any], schemas: dict[str, Any] | None = None) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        empty = schemas is not None and not schemas[name].get("properties")
        return "`{}`" if empty else name
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return "text"
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    if schema.get("type") == "object":
        more = schema.get("additionalProperties")
        return f"{{…: {_kind(more)}}}" if isinstance(more, dict) else "object"
    return {"integer": "int", "number": "number", "boolean": "bool", "string": "text", "null": "null"}.get(
        str(schema.get("type")), "any"
    )


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
