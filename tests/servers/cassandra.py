"""A real Cassandra for tests: one node on loopback, whose jars come by Maven. It starts in about twenty seconds."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, ServerProcess, free_port, maven

VERSION = "5.0.6"
JAVA = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: What Cassandra reaches into since Java 17.
_EXPORTED = (
    "java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql", "java.base/sun.security.x509", "jdk.unsupported/sun.misc",
)  # fmt: skip
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.math", "java.base/java.net", "java.base/java.nio", "java.base/java.util",
    "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math", "java.base/jdk.internal.module", "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect", "java.base/jdk.internal.util.jar", "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip
_SETTINGS = """cluster_name: flott
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: batch
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: {storage_port}
native_transport_port: {port}
endpoint_snitch: SimpleSnitch
authenticator: {authenticator}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{storage_port}"
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
hints_directory: {folder}/hints
saved_caches_directory: {folder}/caches
cdc_raw_directory: {folder}/cdc
"""
_LOGGING = """<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%-5level %logger{20} %msg%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


class CassandraServer:
    """One node, which can be killed and restarted."""

    def __init__(self, folder: Path, authenticator: str = "AllowAllAuthenticator"):
        if shutil.which("java") is None:
            raise NoServer("no Cassandra: there is no java to run it with")
        jars = maven(f"cassandra-{VERSION}", [f"org.apache.cassandra:cassandra-all:{VERSION}"])
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        facts = {"port": self.port, "storage_port": free_port(), "folder": folder, "authenticator": authenticator}
        (folder / "cassandra.yaml").write_text(_SETTINGS.format(**facts))
        (folder / "logback.xml").write_text(_LOGGING)
        agent = next(jars.glob("jamm-*.jar"))
        command = ["java", *JAVA, f"-javaagent:{agent}"]
        command += [word for name in _EXPORTED for word in ("--add-exports", f"{name}=ALL-UNNAMED")]
        command += [word for name in _OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")]
        properties = {
            "cassandra.config": f"file://{folder}/cassandra.yaml",
            "cassandra.storagedir": str(folder),
            "logback.configurationFile": f"file://{folder}/logback.xml",
            "cassandra-foreground": "yes",
            "cassandra.skip_wait_for_gossip_to_settle": "0",
            "cassandra.ring_delay_ms": "100",
            "cassandra.superuser_setup_delay_ms": "0",
            "cassandra.jmx.local.port": "0",
        }
        command += [f"-D{name}={value}" for name, value in properties.items()]
        command += ["-cp", f"{jars}/*", "org.apache.cassandra.service.CassandraDaemon"]
        self.process = ServerProcess("cassandra", command, folder, self._answers)

    def connect(self) -> Any:
        """Return a cluster and a session; the caller shuts the cluster down."""
        from cassandra.cluster import Cluster

        cluster = Cluster(["127.0.0.1"], port=self.port, connect_timeout=60)
        return cluster, cluster.connect()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


@contextmanager
def cassandra_server(folder: Path, authenticator: str = "AllowAllAuthenticator") -> Iterator[CassandraServer]:
    """Give a Cassandra of one's own."""
    server = CassandraServer(folder, authenticator)
    server.process.start()
    try:
        yield server
    finally:
        server.process.stop()
