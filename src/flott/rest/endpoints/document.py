"""The OpenAPI document of the API."""

from __future__ import annotations

from functools import cache
from typing import Any

from flott.rest.endpoint import Endpoint, RestCall


def openapi(call: RestCall) -> dict[str, Any]:
    """Return the API description as OpenAPI 3.1."""
    return _document()


@cache
def _document() -> dict[str, Any]:
    # The document is generated from all tables, including this one, so it can only be built when all are imported.
    from flott.rest.app import all_endpoints
    from flott.rest.openapi import document

    return document(all_endpoints())


ENDPOINTS = (
    Endpoint("GET", "/openapi.json", openapi, dict[str, Any], "This API, as an OpenAPI 3.1 document", "cluster"),
)
