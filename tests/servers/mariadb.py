"""A real MariaDB server on loopback for tests, with row-based binary logs. It starts in about two seconds.

The program comes from Debian's package ``mariadb-server-core``, which is installed already, or downloaded and unpacked
without an installation. Its tables are created by the server's bootstrap mode: the script that usually does that is in
another package.

    with mariadb_server() as server:
        database = server.new_database()
        server.execute("CREATE TABLE t (a INT)", database=database)
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, free_port
from tests.servers.sharing import shared

PACKAGES = ("mariadb-server-core", "libaio1", "liburing2")
USER, PASSWORD = "flott", "weser-water-9"
SETTINGS = {
    "bind-address": "127.0.0.1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-metadata": "FULL",
    "server-id": "1",
    "innodb-buffer-pool-size": "64M",
    "innodb-flush-log-at-trx-commit": "2",  # survives SIGKILL of the server, though not of the machine
    "innodb-lock-wait-timeout": "20",
}
_TABLES = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
)
_names = itertools.count(1)


class MariaDBServer:
    """A server that can be killed and started again. Its user comes by TCP, with a password, over TLS if asked."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = {}, *, tls: bool = False):
        self.folder = folder
        self.port = free_port()
        self.tls = tls
        self.certificate = folder / "server.crt"  #: with TLS: what clients trust
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    # -- addresses

    def url(self, database: str = "mysql") -> str:
        """The address in JDBC's form, without a user."""
        return f"jdbc:mysql://127.0.0.1:{self.port}/{database}"

    def arguments(self, database: str = "mysql") -> dict[str, Any]:
        """The address as PyMySQL wants it."""
        facts = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD, "database": database}
        return facts | ({"ssl_ca": str(self.certificate)} if self.tls else {})

    def new_database(self) -> str:
        """Create an empty database and return its name: each test has its own."""
        name = f"t{os.getpid()}_{next(_names)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def execute(self, statement: str, *arguments: Any, database: str = "mysql") -> list[tuple[Any, ...]]:
        """Run one statement, committed at once, and return its rows."""
        import pymysql

        arriving = self.arguments(database)
        with pymysql.connect(**arriving, autocommit=True, connect_timeout=10) as client, client.cursor() as cursor:
            cursor.execute(statement, arguments or None)
            return list(cursor.fetchall())

    # -- life

    def create(self) -> None:
        """Make the data folder and the user."""
        scripts = installation() / "usr/share/mysql"
        lines = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;", "SET @skip_auth_anonymous=1;"]
        lines += ["SET @current_hostname='localhost';", *(_bootstrap_text(scripts / name) for name in _TABLES)]
        lines += ["FLUSH PRIVILEGES;", f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"]
        lines += [f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;", ""]
        (self.folder / "data").mkdir()
        made = subprocess.run(
            [*self._command(), "--bootstrap", "--enforce-storage-engine=", "--max-allowed-packet=8M"],
            input="\n".join(lines).encode(), capture_output=True, timeout=120, env=_environment(),
        )  # fmt: skip
        if made.returncode != 0:
            raise NoServer(f"no MariaDB: its tables could not be made: {made.stderr.decode(errors='replace')[-500:]}")
        if self.tls:
            self._create_certificate()

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
            raise NoServer(f"no MariaDB with TLS: openssl made no certificate ({error})") from error
        self._settings |= {"ssl-cert": str(self.certificate), "ssl-key": str(key), "require-secure-transport": "ON"}

    def _command(self) -> list[str]:
        root = installation()
        command = [str(root / "usr/sbin/mariadbd"), "--no-defaults", f"--datadir={self.folder}/data"]
        command += [f"--basedir={root}/usr", f"--lc-messages-dir={root}/usr/share/mysql"]
        return [*command, "--user=root"] if os.geteuid() == 0 else command

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        options += [f"--port={self.port}", f"--socket={self.folder}/socket", "--skip-name-resolve"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._command(), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(), start_new_session=True,
            )  # fmt: skip
        self._await()

    def kill(self) -> None:
        """End the server at once, by SIGKILL. What it had acknowledged is on disk."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(30)

    def restart(self) -> None:
        """Kill the server, if it runs, and start it at the same port."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End the server politely."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def _await(self, seconds: float = 90) -> None:
        import pymysql

        assert self._process is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise NoServer(f"no MariaDB: it ended with {self._process.returncode}: {self.last_log()}")
            with suppress(OSError, pymysql.err.OperationalError):
                self.execute("SELECT 1")
                return
            time.sleep(0.03)
        raise NoServer(f"no MariaDB: it does not answer at port {self.port}: {self.last_log()}")

    def last_log(self) -> str:
        """The end of what the server logged."""
        with suppress(OSError):
            return (self.folder / "log").read_text(errors="replace")[-800:]
        return ""


@contextmanager
def mariadb_server(settings: Mapping[str, str] = {}, *, tls: bool = False) -> Iterator[MariaDBServer]:
    """Run a server with a data folder of its own, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="flott-mariadb-"))
    server = MariaDBServer(folder, settings, tls=tls)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def installation() -> Path:
    """The folder below which Debian's package is: ``/`` where it is installed."""
    if os.access("/usr/sbin/mariadbd", os.X_OK):
        return Path("/")
    folder = Path("~/.cache/flott/servers/mariadb").expanduser()
    if (folder / "usr/sbin/mariadbd").exists():
        return folder
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoServer("no MariaDB: it is not installed, and there is no apt-get to download it with")
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="mariadb-", dir=folder.parent))
    try:
        subprocess.run(["apt-get", "download", *PACKAGES], check=True, capture_output=True, timeout=280, cwd=work)
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(work / "root")], check=True, capture_output=True)
        with suppress(OSError):  # another process may have come first
            os.rename(work / "root", folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoServer(f"no MariaDB: Debian's packages {PACKAGES} could not be had ({error})") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _bootstrap_text(script: Path) -> str:
    try:
        return script.read_text()
    except OSError as error:
        raise NoServer(f"no MariaDB: {error}") from error


def _environment() -> dict[str, str]:
    libraries = [str(found) for found in (installation() / "usr/lib").glob("*-linux-gnu")]
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"} | (
        {"LD_LIBRARY_PATH": ":".join(libraries)} if installation() != Path("/") else {}
    )


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a server for all test processes of a run (``sharing.shared``)."""
    with mariadb_server() as server:
        yield {"port": server.port}


@contextmanager
def shared_mariadb() -> Iterator[MariaDBServer]:
    """Give the server that all test processes of this run share: they use databases of their own."""
    with shared("mariadb", serve) as facts:
        server = MariaDBServer(Path("/nonexistent"))
        server.port = facts["port"]
        yield server
