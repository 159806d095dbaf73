"""What connectors make travels to tasks: it is pickled, and does there what it did here."""

from __future__ import annotations

import pickle

import pytest

from flott.table._types import logical as types
from tests.unit.table.connectors.tables import declared, sink_of, source_of

COLUMNS = {"id": types.INT, "r": types.row_type({"at": types.TimestampType(3), "m": types.ArrayType(types.STRING)})}
KAFKA = {"topic": "t", "properties.bootstrap.servers": "b:1", "scan.startup.mode": "earliest-offset"}


@pytest.mark.parametrize(
    "options",
    [
        {"connector": "filesystem", "path": "/t", "format": "json"},
        {"connector": "filesystem", "path": "/t", "format": "csv"},
        {"connector": "filesystem", "path": "/t", "format": "parquet"},
        {"connector": "filesystem", "path": "/t", "format": "debezium-json"},
        {"connector": "datagen"},
        {"connector": "print"},
        {"connector": "blackhole"},
        {"connector": "kafka", "format": "avro", **KAFKA},
        {"connector": "kafka", "format": "canal-json", "sink.partitioner": "fixed", **KAFKA},
        {"connector": "jdbc", "url": "jdbc:sqlite:/t.db", "table-name": "t"},
        {"connector": "delta", "table-path": "/t"},
        {"connector": "iceberg", "catalog-database": "d", "catalog-table": "t"},
    ],
    ids=lambda options: f"{options['connector']}-{options.get('format', '')}",
)
def test_sources_and_sinks_can_be_pickled(options: dict[str, str]) -> None:
    table = declared(COLUMNS, options)
    if options["connector"] not in ("print", "blackhole"):
        source = source_of(table).projected(("r",)).build()
        travelled = pickle.loads(pickle.dumps(source))
        assert type(travelled) is type(source)
        assert travelled.create_reader() is not None
    if options["connector"] != "datagen":
        sink = sink_of(table).make()
        assert getattr(type(sink), "takes_columns", False)
        assert type(pickle.loads(pickle.dumps(sink))) is type(sink)
