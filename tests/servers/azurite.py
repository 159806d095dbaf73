"""Azure Blob Storage as Azurite imitates it, for tests. It comes by npm (the first time a minute) and needs Node."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.servers.process import NoServer, ServerProcess, cached, filling, free_port

VERSION = "3"
#: The account that Azurite has from the start, and its key, which is the same everywhere.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "container"
_API = "2021-08-06"


def program() -> Path:
    """Return the server's program, fetched if needed."""
    folder = cached(f"azurite-{VERSION}")
    if shutil.which("node") is None:
        raise NoServer("no Azurite: there is no Node to run it with")
    with filling(folder) as draft:
        if draft is not None:
            if shutil.which("npm") is None:
                raise NoServer("no Azurite: there is no npm to fetch it with")
            command = ["npm", "install", "--silent", "--prefix", str(draft), f"azurite@{VERSION}"]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=500)
            except (subprocess.SubprocessError, OSError) as error:
                raise NoServer(f"no Azurite: npm could not fetch it ({error})") from error
    return folder / "node_modules" / ".bin" / "azurite-blob"


class AzuriteServer:
    """A server that keeps its blobs in a folder."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        options = ("--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(folder))
        command = ["node", str(program()), *options, "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        self.process = ServerProcess("azurite", command, folder, self._answers)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.url, timeout=5).close()
        except urllib.error.HTTPError:
            return True  # it refuses those without credentials, so it is there
        except OSError:
            return False
        return True

    @property
    def environment(self) -> dict[str, str]:
        """How a client finds the server: variables of the environment."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.url,
        }

    def create_container(self, name: str = CONTAINER) -> None:
        """Create a container by a signed request: no client library is needed for that."""
        date = formatdate(usegmt=True)
        headers = f"x-ms-date:{date}\nx-ms-version:{_API}"
        signed = "\n".join(["PUT", *[""] * 11, headers, f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"])
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
        request = urllib.request.Request(f"{self.url}/{name}?restype=container", method="PUT", data=b"")
        for key, value in {
            "x-ms-date": date,
            "x-ms-version": _API,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
            "Content-Type": "",
        }.items():
            request.add_header(key, value)
        urllib.request.urlopen(request, timeout=60).close()


@contextmanager
def azurite_server(folder: Path) -> Iterator[AzuriteServer]:
    """Run a server with a container."""
    server = AzuriteServer(folder)
    server.process.start()
    try:
        server.create_container()
        yield server
    finally:
        server.process.kill()
