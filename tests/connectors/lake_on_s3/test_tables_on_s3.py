"""Delta and Iceberg tables in a real S3-compatible server: the same promises as in a local folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common.configuration import Configuration
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.delta import DeltaSink, DeltaSource
from flott.datastream.connectors.iceberg import IcebergSink, IcebergSource
from flott.runtime.storage import initialize_object_stores, opening
from flott.testing.connectors import SinkConformance
from flott.testing.harness import collect, in_process
from tests.s3_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server, s3_server
from tests.servers.process import NoServer

#: Marks, not calls in the test: a skipped test starts no server.
needs_delta = pytest.mark.skipif(not find_spec("deltalake"), reason="the extra flott[delta] is not installed")
needs_iceberg = pytest.mark.skipif(not find_spec("pyiceberg"), reason="the extra flott[iceberg] is not installed")

SCHEMA = {"id": "int64", "name": "string"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    pytest.importorskip("obstore", reason="no client: pip install 'flott[object-stores]'")
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def _settings(server: S3Server) -> Iterator[None]:
    initialize_object_stores(Configuration.of(server.options))
    yield
    opening._settings = None


def place() -> str:
    return f"s3://{BUCKET}/{uuid4().hex[:12]}"


def iceberg_catalog(server: S3Server, folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": place(),
        "s3.endpoint": server.url,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }


def options(server: S3Server) -> dict[str, str]:
    return {key.replace(".", "__").replace("-", "_"): value for key, value in server.options.items()}


@needs_delta
def test_a_job_appends_upserts_and_reads_a_delta_table(server: S3Server) -> None:
    appended, latest = place(), place()
    env = in_process(flott__epoch__max_records="40", **options(server))
    rows = env.from_collection([{"id": n % 10, "name": f"n{n}"} for n in range(100)])
    rows.sink_to(DeltaSink.for_row_data(appended, SCHEMA).with_partition_columns("name").build()).set_parallelism(1)
    rows.key_by(lambda row: row["id"]).sink_to(DeltaSink.for_row_data(latest, SCHEMA).with_upsert_keys("id").build())
    env.execute()
    for path, expected in ((appended, 100), (latest, 10)):
        source = DeltaSource.for_bounded_row_data(path).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "table").map(lambda row: row["id"])
        assert len(collect(stream)) == expected


@needs_iceberg
def test_a_job_appends_upserts_and_reads_an_iceberg_table(server: S3Server, tmp_path: Path) -> None:
    catalog = iceberg_catalog(server, tmp_path)
    env = in_process(flott__epoch__max_records="40", **options(server))
    rows = env.from_collection([{"id": n % 10, "name": f"n{n}"} for n in range(100)])
    rows.sink_to(IcebergSink.for_row_data("shop.appended", SCHEMA).with_catalog(catalog).build())
    keyed = rows.key_by(lambda row: row["id"])
    keyed.sink_to(IcebergSink.for_row_data("shop.latest", SCHEMA).with_catalog(catalog).with_upsert_keys("id").build())
    env.execute()
    for table, expected in (("shop.appended", 100), ("shop.latest", 10)):
        source = IcebergSource.for_row_data(table).with_catalog(catalog).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "table").map(lambda row: row["id"])
        assert len(collect(stream)) == expected


@pytest.mark.connectors
class TestDeltaOnS3(SinkConformance):
    """The promises of every sink, for a Delta table in an object store."""

    seeds = 1
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _server(self, server: S3Server) -> None:
        pytest.importorskip("deltalake", reason="the extra flott[delta] is not installed")
        self.job_options = server.options
        self._options = {
            "AWS_ENDPOINT_URL": server.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip

    def sink(self) -> DeltaSink:
        self.path = place()
        return DeltaSink.for_row_data(self.path, SCHEMA).with_storage_options(self._options).build()

    def record(self, number: int) -> Any:
        return (number, f"record {number}")

    def visible(self) -> list[Any]:
        import deltalake

        if not deltalake.DeltaTable.is_deltatable(self.path, storage_options=self._options):
            return []
        table = deltalake.DeltaTable(self.path, storage_options=self._options).to_pyarrow_table()
        return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.connectors
class TestIcebergOnS3(SinkConformance):
    """The promises of every sink, for an Iceberg table in an object store."""

    seeds = 1
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _server(self, server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> None:
        pytest.importorskip("pyiceberg", reason="the extra flott[iceberg] is not installed")
        self.job_options = server.options
        self._new = lambda: iceberg_catalog(server, tmp_path_factory.mktemp("iceberg"))

    def sink(self) -> IcebergSink:
        self.catalog = self._new()
        return IcebergSink.for_row_data("shop.orders", SCHEMA).with_catalog(self.catalog).build()

    def record(self, number: int) -> Any:
        return (number, f"record {number}")

    def visible(self) -> list[Any]:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        try:
            found = load_catalog("default", **self.catalog).load_table("shop.orders").scan().to_arrow()
        except NoSuchTableError:
            return []
        return [tuple(row.values()) for row in found.to_pylist()]
