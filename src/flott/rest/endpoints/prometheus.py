"""The endpoint of all metrics for Prometheus. (``metrics.reporters`` serves them on a separate port.)"""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from flott.reporters.exposition import Exposition, accepted_format
from flott.rest.endpoint import Endpoint, RestCall

#: Caches names and labels of the jobs of the last requests.
_EXPOSITION = Exposition()


async def metrics(call: RestCall) -> Response:
    """Return the metrics in the requested format. A thread formats them, because many jobs take a while."""
    form = accepted_format(", ".join(call.request.headers.getlist("accept")))
    text = await asyncio.to_thread(_EXPOSITION.scrape, call.gateway, form)
    return Response(text, headers={"Content-Type": form.value, "Vary": "Accept"})


ENDPOINTS = (
    Endpoint("GET", "/metrics", metrics, str, "All metrics, for Prometheus", "cluster", media_type="text/plain"),
)
