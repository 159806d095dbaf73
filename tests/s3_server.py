"""A real S3-compatible server for tests: versitygw on loopback, over a folder. It starts in half a second.

The program is built once by Go, into ``~/.cache/flott`` (about a minute), or named by ``FLOTT_VERSITYGW``. It is the
lightest server found whose conditional puts are right: of eight that put at once on one condition exactly one succeeds
(``tests/object_stores/test_server.py`` asks that of the server it is given).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

MODULE = "github.com/versity/versitygw/cmd/versitygw@latest"
ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "flott", "flott-secret", "us-east-1", "bucket"


class NoServer(Exception):
    """There is no server to be had here; the text says why."""


@dataclass(frozen=True)
class S3Server:
    """A server that runs."""

    url: str
    folder: Path  #: what it stores; each bucket is a folder in it

    @property
    def options(self) -> dict[str, str]:
        """The configuration of a job that uses it."""
        return {
            "s3.endpoint": self.url,
            "s3.region": REGION,
            "s3.path-style-access": "true",
            "s3.access-key": ACCESS_KEY,
            "s3.secret-key": SECRET_KEY,
        }

    def through(self, url: str) -> S3Server:
        """The same server, reached by another way."""
        return replace(self, url=url)


def program() -> str:
    """The server's program, built if that is possible."""
    named = os.environ.get("FLOTT_VERSITYGW")
    cached = Path("~/.cache/flott/versitygw").expanduser()
    for found in (named, shutil.which("versitygw"), str(cached)):
        if found and os.access(found, os.X_OK):
            return found
    if shutil.which("go") is None:
        raise NoServer("no S3 server: versitygw is not installed, and there is no Go to build it with")
    cached.parent.mkdir(parents=True, exist_ok=True)
    try:
        building = {**os.environ, "GOBIN": str(cached.parent)}
        subprocess.run(["go", "install", MODULE], env=building, check=True, capture_output=True, timeout=280)
    except (subprocess.SubprocessError, OSError) as error:
        raise NoServer(f"no S3 server: versitygw could not be built ({error})") from error
    return str(cached)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run a server over a folder, with one bucket."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    command = [program(), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", "posix", str(folder)]
    server = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await(f"http://127.0.0.1:{port}", server)
        yield S3Server(f"http://127.0.0.1:{port}", folder)
    finally:
        server.kill()
        server.wait()


def _await(url: str, server: subprocess.Popen[bytes], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise NoServer(f"no S3 server: versitygw ended with {server.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return  # it refuses those without credentials, so it is there
        except OSError:
            time.sleep(0.05)
    raise NoServer(f"no S3 server: versitygw does not answer at {url}")
