"""The OpenAPI document of the API, and the start page for browsers."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.responses import HTMLResponse, Response

from flott import __version__
from flott.rest.endpoint import Endpoint, RestCall

PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Flott</title></head>
<body><h1>Flott {__version__}</h1>
<p>This is a JobManager's REST API: <a href="overview">overview</a>, <a href="jobs/overview">jobs</a>,
<a href="taskmanagers">task managers</a>, <a href="openapi.json">all endpoints</a>.</p></body></html>
"""


def page(call: RestCall) -> Response:
    """Return the start page for browsers."""
    return HTMLResponse(PAGE)


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
    Endpoint("GET", "/", page, str, "A page for browsers", "cluster", media_type="text/html"),
    Endpoint("GET", "/index.html", page, str, "The same page", "cluster", media_type="text/html"),
    Endpoint("GET", "/openapi.json", openapi, dict[str, Any], "This API, as an OpenAPI 3.1 document", "cluster"),
)
