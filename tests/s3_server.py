"""A real S3-compatible server for tests: versitygw on loopback, over a folder. It starts in half a second.

The program is built once by Go, into ``~/.cache/flott/servers`` (one to five minutes), or named by ``FLOTT_VERSITYGW``.
``scripts/setup`` builds it (``python -m tests.s3_server``), so that no test waits for the compiler. It is the lightest
server found whose conditional puts are right: of eight that put at once on one condition exactly one succeeds
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.servers.process import NoServer, cached, filling

MODULE = "github.com/versity/versitygw/cmd/versitygw@latest"
ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "flott", "flott-secret", "us-east-1", "bucket"


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
    """Return the path of the server's program."""
    named = os.environ.get("FLOTT_VERSITYGW")
    for found in (named, shutil.which("versitygw"), str(cached("versitygw") / "versitygw")):
        if found and os.access(found, os.X_OK):
            return found
    raise NoServer("no S3 server: versitygw is not installed, and scripts/setup could not build it (it needs Go)")


def build() -> None:
    """Build the program, if there is none and there is a Go to build it with."""
    with suppress(NoServer):
        program()
        return
    if shutil.which("go") is None:
        raise NoServer("versitygw cannot be built: there is no Go")
    with filling(cached("versitygw")) as draft:
        if draft is not None:
            try:
                building = {**os.environ, "GOBIN": str(draft)}
                subprocess.run(["go", "install", MODULE], env=building, check=True, capture_output=True, timeout=900)
            except (subprocess.SubprocessError, OSError) as error:
                raise NoServer(f"versitygw cannot be built: {error}") from error


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


if __name__ == "__main__":
    try:
        build()
    except NoServer as reason:
        print(f"Tests with an S3 server will be skipped: {reason}")
