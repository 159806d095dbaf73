"""MinIO for tests: an S3-compatible server of another make than the one in every run. Go builds it, in some minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import NoServer, ServerProcess, cached, filling, free_port

MODULE = "github.com/minio/minio@latest"
ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "flott-jobs", "minios-secret-key", "us-east-1", "bucket"


def program() -> Path:
    """Return the server's program, built if needed."""
    folder = cached("minio")
    with filling(folder) as draft:
        if draft is not None:
            if shutil.which("go") is None:
                raise NoServer("no MinIO: there is no Go to build it with")
            try:
                building = {**os.environ, "GOBIN": str(draft)}
                subprocess.run(["go", "install", MODULE], env=building, check=True, capture_output=True, timeout=850)
            except (subprocess.SubprocessError, OSError) as error:
                raise NoServer(f"no MinIO: it cannot be built ({error})") from error
    return folder / "minio"


class MinioServer:
    """A server over a folder, with one bucket."""

    def __init__(self, folder: Path):
        (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)  # a folder is a bucket
        self.url = f"http://127.0.0.1:{free_port()}"
        address = self.url.removeprefix("http://")
        command = [str(program()), "server", "--quiet", "--address", address, str(folder / "data")]
        login = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "MINIO_BROWSER": "off"}
        self.process = ServerProcess("minio", command, folder, self._answers, login)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/minio/health/ready", timeout=5).close()
        except urllib.error.HTTPError:
            return False
        except OSError:
            return False
        return True

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


@contextmanager
def minio_server(folder: Path) -> Iterator[MinioServer]:
    """Run a server."""
    server = MinioServer(folder)
    server.process.start()
    try:
        yield server
    finally:
        server.process.stop()
