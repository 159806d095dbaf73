"""A JobManager's REST API made of a table of answers, behind a real port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

JOB = "a" * 32
OTHER_JOB = "ab" * 16

#: A document, or a function of the request's query and body.
Answer = Any


class FakeJobManager:
    """Answers by ``answers["GET /path"]``; what was asked is in ``requests``, without GETs."""

    def __init__(self, url: str):
        self.url = url
        self.address = url.removeprefix("http://")
        self.requests: list[tuple[str, Any]] = []
        self.jobs: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Answer] = {
            "GET /overview": {
                "taskmanagers": 2, "slots-total": 4, "slots-available": 1, "jobs-running": 1, "jobs-finished": 2,
                "jobs-cancelled": 0, "jobs-failed": 3, "flink-version": "0.1.0", "flink-commit": "unknown",
            },
            "GET /taskmanagers": {
                "taskmanagers": [{"id": "1", "hardware": {"physicalMemory": 4096, "freeMemory": 1024}}],
            },
            "GET /jobs/overview": lambda query, body: {"jobs": [dict(job["overview"]) for job in self.jobs.values()]},
        }  # fmt: skip

    def add_job(self, job_id: str = JOB, name: str = "demo", state: str = "RUNNING", **detail: Any) -> None:
        """A job with the answers that its progress is read from; cancel and stop end it."""
        overview = {"jid": job_id, "name": name, "state": state, "start-time": 1000, "end-time": -1, "duration": 5000}
        self.jobs[job_id] = {"overview": overview}
        found = {"jid": job_id, "name": name, "state": state, "duration": 5000, "now": 61_000, **detail}
        latest = {"id": 7, "latest_ack_timestamp": 59_000, "state_size": 2048}
        self.answers |= {
            f"GET /jobs/{job_id}": lambda query, body: {**found, "state": overview["state"]},
            f"GET /jobs/{job_id}/checkpoints": {"latest": {"completed": latest}},
            f"GET /jobs/{job_id}/metrics": [{"id": "pendingRecords", "value": "12"}],
            f"PATCH /jobs/{job_id}": lambda query, body: self.end(job_id, "CANCELED"),
            f"POST /jobs/{job_id}/stop": lambda query, body: {**self.end(job_id, "FINISHED"), "request-id": "f" * 32},
            f"GET /jobs/{job_id}/savepoints/{'f' * 32}": {
                "status": {"id": "COMPLETED"}, "operation": {"location": "/savepoints/savepoint-1"},
            },
        }  # fmt: skip

    def end(self, job_id: str, state: str) -> dict[str, Any]:
        """The job ends."""
        self.jobs[job_id]["overview"]["state"] = state
        return {}

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(target)
        path = parts.path.removeprefix("/v1")
        if method != "GET":
            self.requests.append((f"{method} {target.removeprefix('/v1')}", body))
        found = self.answers.get(f"{method} {path}")
        if found is None:
            return 404, {"errors": [f"Nothing is known of {path}"]}
        return 200, found(parse_qs(parts.query), body) if isinstance(found, Callable) else found  # type: ignore[arg-type]


@contextmanager
def fake_jobmanager() -> Iterator[FakeJobManager]:
    """One that listens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content and content.startswith(b"{") else None
            status, document = manager.answer(self.command, self.path, body)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    manager = FakeJobManager(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield manager
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
