"""The Iceberg sink and source with a real REST catalog (Nessie) and a warehouse in a real S3-compatible server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.iceberg import IcebergSink, IcebergSource
from flott.testing.connectors import SinkConformance
from flott.testing.harness import collect, in_process
from tests import s3_server
from tests.servers.nessie import nessie
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors

SCHEMA = {"id": "int64", "name": "string"}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    pytest.importorskip("pyiceberg", reason="the extra flott[iceberg] is not installed")
    folder = tmp_path_factory.mktemp("nessie")
    try:
        with s3_server.s3_server(folder / "s3") as s3, nessie(folder / "nessie", s3) as properties:
            yield properties
    except NoServer as reason:
        pytest.skip(str(reason))


def test_a_job_appends_upserts_and_reads(catalog: dict[str, str]) -> None:
    appended, latest = f"a{uuid4().hex[:8]}.orders", f"b{uuid4().hex[:8]}.orders"
    env = in_process(flott__epoch__max_records="40")
    rows = env.from_collection([{"id": n % 10, "name": f"n{n}"} for n in range(100)])
    rows.sink_to(IcebergSink.for_row_data(appended, SCHEMA).with_catalog(catalog).build())
    keyed = rows.key_by(lambda row: row["id"])
    keyed.sink_to(IcebergSink.for_row_data(latest, SCHEMA).with_catalog(catalog).with_upsert_keys("id").build())
    env.execute()
    for table, expected in ((appended, 100), (latest, 10)):
        source = IcebergSource.for_row_data(table).with_catalog(catalog).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "table").map(lambda row: row["id"])
        assert len(collect(stream)) == expected


class TestIcebergRest(SinkConformance):
    """The promises of every sink, with a REST catalog."""

    seeds = 1
    secrets = (s3_server.SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _catalog(self, catalog: dict[str, str]) -> None:
        self.catalog = catalog

    def sink(self) -> IcebergSink:
        self.table = f"kit{uuid4().hex[:8]}.orders"
        return IcebergSink.for_row_data(self.table, SCHEMA).with_catalog(self.catalog).build()

    def record(self, number: int) -> Any:
        return (number, f"record {number}")

    def visible(self) -> list[Any]:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        try:
            found = load_catalog("default", **self.catalog).load_table(self.table).scan().to_arrow()
        except NoSuchTableError:
            return []
        return [tuple(row.values()) for row in found.to_pylist()]
