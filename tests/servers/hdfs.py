"""A real HDFS for tests: a NameNode and a DataNode on loopback, whose jars come by Maven. It starts in seconds."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers.process import NoServer, ServerProcess, free_port, maven

VERSION = "3.4.2"
JARS = tuple(f"org.apache.hadoop:{name}:{VERSION}" for name in ("hadoop-hdfs", "hadoop-common", "hadoop-hdfs-client"))
JAVA = (
    "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)  # fmt: skip


class HdfsServer:
    """A file system of one node, which can be killed and restarted."""

    def __init__(self, folder: Path):
        if shutil.which("java") is None:
            raise NoServer("no HDFS: there is no java to run it with")
        self._jars = maven(f"hdfs-{VERSION}", JARS)
        self.folder = folder
        self.port = free_port()
        self.url = f"hdfs://127.0.0.1:{self.port}"
        for name in ("conf", "name", "data", "webapps/hdfs", "webapps/datanode"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._write("core-site.xml", {"fs.defaultFS": self.url, "hadoop.tmp.dir": str(folder / "tmp")})
        self._write(
            "hdfs-site.xml",
            {
                "dfs.namenode.name.dir": f"file://{folder}/name",
                "dfs.datanode.data.dir": f"file://{folder}/data",
                "dfs.replication": "1",
                "dfs.permissions.enabled": "false",
                "dfs.namenode.http-address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.http.address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.namenode.safemode.extension": "0",
                "dfs.blocksize": "1048576",
                "dfs.namenode.fs-limits.min-block-size": "1024",
            },
        )
        node = "org.apache.hadoop.hdfs.server"
        self._format = self._java(f"{node}.namenode.NameNode", "-format", "-nonInteractive")
        self.name_node = ServerProcess("namenode", self._java(f"{node}.namenode.NameNode"), folder, self._listens)
        self.data_node = ServerProcess("datanode", self._java(f"{node}.datanode.DataNode"), folder, self._stores)

    def start(self) -> None:
        """Format it, start it, and wait until it stores files."""
        try:
            subprocess.run(self._format, cwd=self.folder, check=True, capture_output=True, timeout=120)
        except (subprocess.SubprocessError, OSError) as error:
            raise NoServer(f"no HDFS: it cannot be formatted ({error})") from error
        self.name_node.start()
        self.data_node.start()

    def stop(self) -> None:
        """End it."""
        self.data_node.kill()
        self.name_node.kill()

    def client(self) -> Any:
        """Return a client."""
        from hdfs_native import Client

        return Client(self.url)

    def _listens(self) -> bool:
        try:
            self.client().get_file_info("/")
            return True
        except Exception:
            return False

    def _stores(self) -> bool:
        try:
            client, name = self.client(), f"/.probe-{uuid4().hex}"  # one that failed leaves a file that is open
            with client.create(name) as file:
                file.write(b"x")
            return bool(client.delete(name))
        except Exception:
            return False

    def _java(self, *command: str) -> list[str]:
        path = f"{self.folder}/conf:{self.folder}:{self._jars}/*"
        return ["java", *JAVA, "-cp", path, *command]

    def _write(self, name: str, values: Mapping[str, str]) -> None:
        each = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        (self.folder / "conf" / name).write_text(f"<configuration>{''.join(each)}</configuration>")


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run an HDFS for all test processes of a run."""
    server = HdfsServer(folder)
    try:
        server.start()
        yield {"url": server.url}
    finally:
        server.stop()
