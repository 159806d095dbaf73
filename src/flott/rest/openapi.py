"""Generate the OpenAPI 3.1 document from the endpoint tables. ``python -m flott.rest.openapi`` prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from flott import __version__
from flott.rest.endpoint import HEX_PARAMETERS, INTEGER_PARAMETERS, Endpoint, Query

_REF = "#/components/schemas/{model}"
_HEX_SCHEMA = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
_INTEGER_SCHEMA = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
_ERROR = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}
#: The error responses of every endpoint. The message contains the reason.
_REFUSALS = {"4XX": "The request cannot be answered as it is.", "5XX": "The JobManager failed to do what it was asked."}


def document(table: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the description of all endpoints. Paths are given without the version prefix ``/v1``."""
    schemas = _Schemas(table)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in sorted(table, key=lambda endpoint: (endpoint.path, endpoint.method)):
        paths.setdefault(_path(endpoint), {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Flott's REST API",
            "version": __version__,
            "description": "Flink's REST API, as Flott's JobManager serves it. Every path may begin with /v1.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Errors": _ERROR, **schemas.definitions},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """The JSON schemas of all types in the tables. A type with a name is defined once."""

    def __init__(self, table: Sequence[Endpoint]):
        wanted: dict[tuple[int, Any], Any] = {}
        for index, endpoint in enumerate(table):
            wanted[index, "serialization"] = endpoint.reply
            if endpoint.body is not None:
                wanted[index, "validation"] = endpoint.body
        found, rest = TypeAdapter.json_schemas(
            [((index, mode), mode, TypeAdapter(kind)) for (index, mode), kind in wanted.items()], ref_template=_REF
        )
        self.definitions: dict[str, Any] = rest.get("$defs", {})
        self._index = {id(endpoint): index for index, endpoint in enumerate(table)}
        self._found: dict[Any, Any] = dict(found)

    def of(self, endpoint: Endpoint, mode: str) -> Any:
        index = self._index[id(endpoint)]
        return self._found[(index, mode), mode]


def _path(endpoint: Endpoint) -> str:
    return "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in endpoint.path.split("/"))


def _operation(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [*(_path_parameter(name) for name in endpoint.parameters), *map(_query, endpoint.query)],
        "responses": {str(endpoint.status): {"description": endpoint.summary, "content": _reply(endpoint, schemas)}},
    }
    for status, meaning in _REFUSALS.items():
        errors = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
        operation["responses"][status] = {"description": meaning, "content": errors}
    if endpoint.body is not None:
        body = {"application/json": {"schema": schemas.of(endpoint, "validation")}}
        operation["requestBody"] = {"required": False, "content": body}
    if endpoint.form:
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": _form(endpoint)}}}
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = [
        word for part in endpoint.path.split("/") for word in part.lstrip(":").replace(".", "-").split("-") if word
    ]
    return endpoint.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _reply(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    kind = endpoint.media_type or ("text/plain" if endpoint.reply is str else "application/json")
    return {kind: {"schema": schemas.of(endpoint, "serialization")}}


def _path_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if name in HEX_PARAMETERS:
        schema = _HEX_SCHEMA
    elif name in INTEGER_PARAMETERS:
        schema = _INTEGER_SCHEMA
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(query: Query) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.meaning,
    }
    if query.kind is list:
        shape |= {"schema": {"type": "array", "items": {"type": "string"}}, "style": "form", "explode": False}
        return shape
    schema: dict[str, Any] = {"type": {int: "integer", bool: "boolean"}.get(query.kind, "string")}
    if query.choices:
        schema["enum"] = list(query.choices)
    if query.kind is int:
        schema["minimum"] = -(10**18) + 1 if query.minimum is None else query.minimum
        schema["maximum"] = 10**18 - 1 if query.maximum is None else query.maximum
    if query.default is not None:
        schema["default"] = query.default
    return shape | {"schema": schema}


def _form(endpoint: Endpoint) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for part in endpoint.form:
        schema: dict[str, Any] = {"type": "string", "description": part.meaning}
        if part.binary:
            schema["contentMediaType"] = "application/octet-stream"
        properties[part.name] = {"type": "array", "items": schema} if part.repeated else schema
    required = [part.name for part in endpoint.form if part.required]
    return {"type": "object", "properties": properties, "required": required}


def main() -> None:
    """Print the document."""
    from flott.rest.app import all_endpoints

    sys.stdout.write(json.dumps(document(all_endpoints()), indent=2) + "\n")


if __name__ == "__main__":
    main()
