"""A JobManager that stands by: it says who leads, and nobody waits for it while it finds out."""

from __future__ import annotations

import asyncio
import threading

from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from flott.rest.leader_gate import LeaderGate


def test_a_standby_says_who_leads_and_the_leader_answers_itself() -> None:
    gate = LeaderGate(lambda: "http://other:8081")
    client = TestClient(gate)
    reply = client.get("/jobs")
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "1")
    assert "http://other:8081" in reply.json()["errors"][0]
    gate.open(PlainTextResponse("here"))
    assert client.get("/jobs").text == "here"
    gate.close()
    assert client.get("/jobs").status_code == 503


def test_storage_that_hangs_does_not_hold_up_other_requests() -> None:
    hanging, answered = threading.Event(), threading.Event()

    def who_leads() -> None:
        hanging.set()
        assert answered.wait(120)

    async def ask() -> bool:
        gate = LeaderGate(who_leads)
        replies: list[object] = []

        async def send(message: object) -> None:
            replies.append(message)

        async def receive() -> dict[str, object]:
            return {"type": "http.request"}

        asking = asyncio.create_task(gate({"type": "http"}, receive, send))
        while not hanging.is_set():
            await asyncio.sleep(0)
        free = not asking.done()  # and the loop gets here
        answered.set()
        await asking
        return free and bool(replies)

    assert asyncio.run(ask())
