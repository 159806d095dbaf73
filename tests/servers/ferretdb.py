"""A server that speaks MongoDB's protocol: FerretDB 1.24 with SQLite, built with Go. It starts in a second.

MongoDB itself is not in a package registry. FerretDB has no transactions and no change streams, which the sink does not
use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, ServerProcess, cached, free_port

VERSION = "v1.24.0"
_MODULE = "github.com/FerretDB/FerretDB"


def program() -> Path:
    """Return the server's program, built if needed: that takes some minutes once."""
    folder = cached(f"ferretdb-{VERSION}")
    found = folder / "ferretdb"
    with open(folder.with_name(f".{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found.exists():
            return found
        if shutil.which("go") is None:
            raise NoServer("no FerretDB: there is no Go to build it with")
        folder.mkdir(exist_ok=True)
        try:
            _build(folder, found)
        except (subprocess.SubprocessError, OSError) as error:
            raise NoServer(f"no FerretDB: it cannot be built ({error})") from error
    return found


def _build(folder: Path, found: Path) -> None:
    """Build a copy of the module: the published one lacks a file with its version, without which it does not start."""
    (folder / "go.mod").write_text(f"module servers\n\ngo 1.22\n\nrequire {_MODULE} {VERSION}\n")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    _go(folder, environment, "mod", "download", f"{_MODULE}@{VERSION}")
    module = _go(folder, environment, "list", "-m", "-f", "{{.Dir}}", _MODULE).strip()
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(module, source)
    for path in (source, *source.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    (source / "build/version/version.txt").write_text(f"{VERSION}\n")
    _go(source, environment, "build", "-o", f"{found}.draft", "./cmd/ferretdb")
    os.rename(f"{found}.draft", found)
    shutil.rmtree(source)


def _go(folder: Path, environment: dict[str, str], *words: str) -> str:
    made = subprocess.run(["go", *words], cwd=folder, env=environment, check=True, capture_output=True, timeout=800)
    return made.stdout.decode()


class FerretServer:
    """One server with a folder of its own, which can be killed and restarted."""

    def __init__(self, folder: Path):
        import pymongo

        self.port = free_port()
        self.uri = f"mongodb://127.0.0.1:{self.port}/"
        command = [
            *(str(program()), "--handler=sqlite", f"--sqlite-url=file:{folder}/", f"--state-dir={folder}"),
            *(f"--listen-addr=127.0.0.1:{self.port}", "--debug-addr=-", "--telemetry=disable", "--log-level=error"),
        ]
        self.client: Any = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=1000)
        self.process = ServerProcess("ferretdb", command, folder, self._answers)

    def _answers(self) -> bool:
        import pymongo

        try:
            return bool(self.client.admin.command("ping"))
        except pymongo.errors.PyMongoError:
            return False


@contextmanager
def ferretdb_server(folder: Path) -> Iterator[FerretServer]:
    """Give a server of one's own."""
    server = FerretServer(folder)
    server.process.start()
    try:
        yield server
    finally:
        server.client.close()
        server.process.stop()
