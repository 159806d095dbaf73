"""All metrics for Prometheus, behind the same door as everything else. (A port of its own: ``metrics.reporters``.)"""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from flott.reporters.exposition import Exposition, accepted_format
from flott.rest.endpoint import Endpoint, RestCall

#: Keeps names and labels of the jobs it was last asked about, whoever's they are.
_EXPOSITION = Exposition()


async def metrics(call: RestCall) -> Response:
    """What a scrape finds. Not made in the event loop: with many jobs it takes a while."""
    form = accepted_format(", ".join(call.request.headers.getlist("accept")))
    text = await asyncio.to_thread(_EXPOSITION.scrape, call.gateway, form)
    return Response(text, headers={"Content-Type": form.value, "Vary": "Accept"})


ENDPOINTS = (
    Endpoint("GET", "/metrics", metrics, str, "All metrics, for Prometheus", "cluster", media_type="text/plain"),
)
