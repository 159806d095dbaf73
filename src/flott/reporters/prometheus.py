"""Serves metrics for Prometheus at a port, as Flink's reporter does. JobManager side."""

from __future__ import annotations

import gzip
import logging
import re
import socket
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from urllib.parse import parse_qs, urlsplit

from flott.errors import ConfigurationError
from flott.reporters.exposition import Exposition, accepted_format
from flott.reporters.reporter import Reporter
from flott.runtime.jobmanager.gateway import ClusterGateway

log = logging.getLogger("flott.reporters")

#: Connections that are silent for this long are closed.
_TIMEOUT_SECONDS = 10.0
#: The text is repetitive, so a higher level makes it hardly smaller.
_GZIP_LEVEL = 1


class PrometheusReporter(Reporter):
    """Serves the metrics at the first free port of a range."""

    def __init__(self, name: str, gateway: ClusterGateway, host: str, ports: Sequence[int], filter_values: bool = True):
        self.name = name
        self._gateway = gateway
        self._host = host
        self._ports = ports
        self._exposition = Exposition(filter_values)
        self._server: _ScrapeServer | None = None
        self.port: int | None = None  #: the port in use

    def start(self) -> None:
        problem: OSError | None = None
        for port in self._ports:
            try:
                self._server = _ScrapeServer(self._host, port, self._gateway, self._exposition)
            except OSError as error:
                log.debug("Port %d for metrics: %s", port, error)
                problem = error
                continue
            self.port = int(self._server.server_port)
            threading.Thread(target=self._server.serve_forever, name=f"flott-reporter-{self.name}", daemon=True).start()
            log.info("Metrics for Prometheus: http://%s:%d/metrics", self._host, self.port)
            return
        shown = f"{self._ports[0]}-{self._ports[-1]}" if len(self._ports) > 1 else str(self._ports[0])
        log.error(
            "No metrics for Prometheus: port %s of %s cannot be opened (%s). Set metrics.reporter.%s.port to a free"
            " one, or to a range: 9250-9260; and metrics.reporter.%s.host to an address of this machine.",
            shown, self._host, problem, self.name, self.name,
        )  # fmt: skip

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _ScrapeServer(ThreadingHTTPServer):
    """Serves every connection in a thread. Threads end with the process, and connections time out."""

    def __init__(self, host: str, port: int, gateway: ClusterGateway, exposition: Exposition):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        self.gateway = gateway
        self.exposition = exposition
        super().__init__((str(address[0]), port), _Scrape)

    def server_bind(self) -> None:
        """Bind without looking up the name of the machine, which ``HTTPServer`` would do."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that close the connection early."""
        log.debug("A scrape from %s was not completed.", client_address, exc_info=True)


class _Scrape(BaseHTTPRequestHandler):
    """Answers one request, whatever its path, as Prometheus' own client libraries do."""

    server: _ScrapeServer
    timeout = _TIMEOUT_SECONDS

    def do_GET(self) -> None:
        form = accepted_format(", ".join(self.headers.get_all("Accept", ())))
        names = parse_qs(urlsplit(self.path).query).get("name[]", ())
        try:
            text = self.server.exposition.scrape(self.server.gateway, form, names)
        except Exception as error:
            log.warning("A scrape failed: %s: %s", type(error).__name__, error)
            self.send_error(500)
            return
        self.send_response(200)
        self.send_header("Content-Type", form.value)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            text = gzip.compress(text, _GZIP_LEVEL)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_HEAD = do_GET

    def version_string(self) -> str:
        """Do not reveal the version of Python."""
        return "flott"

    def log_message(self, format: str, *args: object) -> None:
        """Do not log scrapes."""


def ports_of(text: str, key: str) -> list[int]:
    """Return the ports of a setting such as ``9249`` or ``9250-9260``."""
    found = re.fullmatch(r"\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*", text)
    if found is None or int(found[2] or found[1]) > 65535 or int(found[2] or found[1]) < int(found[1]):
        raise ConfigurationError(f"Option {key}: found {text!r}, expected a port, or a range such as 9250-9260.")
    return list(range(int(found[1]), int(found[2] or found[1]) + 1))
