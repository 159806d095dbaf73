"""The door of a JobManager that may not lead yet: closed it says who does, open it lets requests in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send


class LeaderGate:
    """An application that is one of two: the JobManager's, or a sentence with status 503, which clients try again."""

    def __init__(self, who_leads: Callable[[], str | None]):
        self._who_leads = who_leads
        self._app: ASGIApp | None = None

    def open(self, app: ASGIApp) -> None:
        """The JobManager leads: this is what answers for it."""
        self._app = app

    def close(self) -> None:
        """It does not, or not any more."""
        self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app = self._app or await self._closed()
        await app(scope, receive, send)

    async def _closed(self) -> Response:
        leader = await asyncio.to_thread(self._who_leads)  # storage or ZooKeeper is asked, which may take its time
        place = f"The one that leads is at {leader}." if leader else "None leads at the moment."
        text = json.dumps({"errors": [f"This JobManager stands by, or is starting. {place} Try again in a moment."]})
        return Response(text, 503, {"Retry-After": "1"}, "application/json; charset=UTF-8")
