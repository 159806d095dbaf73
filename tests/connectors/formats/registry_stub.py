"""The few answers of a schema registry that Flott uses, in this process, with a login and faults on demand."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote


class RegistryStub:
    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.levels: dict[str, str] = {}
        self.requests: list[str] = []
        self.login: str | None = None
        self.faults: list[int] = []  #: statuses to answer with first
        self.body: bytes | None = None  #: what to answer instead
        self.url = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, path.strip("/").split("/"):
            case "GET", ["schemas", "ids", ident]:
                index = int(ident) - 1
                return (200, self.schemas[index]) if index < len(self.schemas) else (404, {"error_code": 40403})
            case "GET", ["subjects", subject, "versions"]:
                return 200, list(range(1, len(self.subjects[subject]) + 1))
            case "GET", ["subjects", subject, "versions", version]:
                ident = self.subjects[subject][int(version) - 1]
                return 200, {**self.schemas[ident - 1], "id": ident}
            case "PUT", ["config", subject]:
                self.levels[subject] = body["compatibility"]
                return 200, body
            case "POST", ["subjects", subject]:
                ident = self._known(body)
                known = ident in self.subjects.get(subject, ())
                return (200, {"id": ident, "schema": body["schema"]}) if known else (404, {"error_code": 40403})
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
        return 404, {"message": "HTTP 404 Not Found"}

    def _known(self, body: dict[str, Any]) -> int | None:
        return next((index for index, each in enumerate(self.schemas, 1) if each["schema"] == body["schema"]), None)

    def _register(self, subject: str, body: dict[str, Any]) -> tuple[int, Any]:
        versions = self.subjects.setdefault(subject, [])
        if self.levels.get(subject) == "BACKWARD" and '"type": "string"}]' in body["schema"]:
            return 409, {"error_code": 409, "message": "The schema is incompatible with an earlier one."}
        ident = self._known(body)
        if ident is None:
            self.schemas.append(body)
            ident = len(self.schemas)
        if ident not in versions:
            versions.append(ident)
        return 200, {"id": ident}


@contextmanager
def registry_stub() -> Iterator[RegistryStub]:
    stub = RegistryStub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            stub.requests.append(f"{self.command} {self.path}")
            expected = None if stub.login is None else f"Basic {base64.b64encode(stub.login.encode()).decode()}"
            if stub.faults:
                status, answer = stub.faults.pop(0), {"message": "fault"}
            elif expected is not None and self.headers.get("Authorization") != expected:
                status, answer = 401, {"message": "who are you?"}
            else:
                status, answer = stub.answer(self.command, unquote(self.path), body)
            content = json.dumps(answer).encode() if stub.body is None else stub.body
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
