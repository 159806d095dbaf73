"""All metrics for Prometheus, behind the same door as everything else. (A port of its own: ``metrics.reporters``.)"""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from flott.reporters.prometheus import exposition
from flott.rest.endpoint import Endpoint, RestCall


async def metrics(call: RestCall) -> Response:
    """What a scrape finds. Not made in the event loop: with many jobs it takes a while."""
    text, content_type = await asyncio.to_thread(exposition, call.gateway)
    return Response(text, headers={"Content-Type": content_type})


ENDPOINTS = (
    Endpoint("GET", "/metrics", metrics, str, "All metrics, for Prometheus", "cluster", media_type="text/plain"),
)
