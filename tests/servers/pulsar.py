"""A real Pulsar for tests: a standalone broker whose jars come by Maven. It starts in about 20 seconds."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, ServerProcess, free_port, maven

VERSION = "4.0.7"
JARS = (f"org.apache.pulsar:pulsar-broker:{VERSION}",)
JAVA = ("-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: What Pulsar reflects on in the JDK.
OPENS = ("java.base/java.io", "java.base/java.lang", "java.base/java.net", "java.base/java.nio", "java.base/java.util",
         "java.base/jdk.internal.platform", "java.base/sun.net", "java.base/java.util.zip", "java.base/sun.nio.ch",
         "java.management/sun.management")  # fmt: skip


class PulsarServer:
    """One broker, which can be killed and restarted."""

    def __init__(self, folder: Path):
        if shutil.which("java") is None:
            raise NoServer("no Pulsar: there is no java to run it with")
        jars = maven(f"pulsar-{VERSION}", JARS)
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.http_port = free_port(), free_port()
        self.url = f"pulsar://127.0.0.1:{self.port}"
        (folder / "standalone.conf").write_text(
            f"brokerServicePort={self.port}\nwebServicePort={self.http_port}\nbindAddress=127.0.0.1\n"
            "advertisedAddress=127.0.0.1\nclusterName=standalone\nmanagedLedgerDefaultEnsembleSize=1\n"
            "managedLedgerDefaultWriteQuorum=1\nmanagedLedgerDefaultAckQuorum=1\nallowAutoTopicCreation=true\n"
            "allowAutoTopicCreationType=non-partitioned\nloadBalancerEnabled=false\nfunctionsWorkerEnabled=false\n"
            "webSocketServiceEnabled=false\nsystemTopicEnabled=false\ntopicLevelPoliciesEnabled=false\n"
            "numIOThreads=2\nnumHttpServerThreads=4\njournalSyncData=false\n"
        )
        command = ["java", *JAVA]
        for name in OPENS:
            command += ["--add-opens", f"{name}=ALL-UNNAMED"]
        command += ["-cp", f"{jars}/*", "org.apache.pulsar.PulsarStandaloneStarter"]
        command += ["-c", str(folder / "standalone.conf"), "-nfw", "-nss"]
        self.process = ServerProcess("pulsar", command, folder, self._answers)

    def _answers(self) -> bool:
        try:
            address = f"http://127.0.0.1:{self.http_port}/admin/v2/namespaces/public/default"
            urllib.request.urlopen(address, timeout=5).close()
            return True
        except OSError:
            return False


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a broker for all tests of a run."""
    server = PulsarServer(folder / "pulsar")
    server.process.start()
    try:
        yield {"url": server.url, "admin": f"http://127.0.0.1:{server.http_port}"}
    finally:
        server.process.kill()
