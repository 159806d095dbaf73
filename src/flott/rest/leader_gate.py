"""Answers requests of a JobManager that may not lead: as a standby it returns 503 and the leader's address."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send


class LeaderGate:
    """Forwards requests to the JobManager's application while it leads, and responds with 503 otherwise."""

    def __init__(self, who_leads: Callable[[], str | None]):
        self._who_leads = who_leads
        self._app: ASGIApp | None = None

    def open(self, app: ASGIApp) -> None:
        """Forward requests to ``app``, because the JobManager leads."""
        self._app = app

    def close(self) -> None:
        """Respond with 503, because the JobManager does not lead."""
        self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app = self._app or await self._closed()
        await app(scope, receive, send)

    async def _closed(self) -> Response:
        leader = await asyncio.to_thread(self._who_leads)  # reads storage or ZooKeeper, which may take a while
        place = f"The leader is at {leader}." if leader else "None leads at the moment."
        text = json.dumps({"errors": [f"This JobManager stands by, or is starting. {place} Try again later."]})
        return Response(text, 503, {"Retry-After": "1"}, "application/json; charset=UTF-8")
