"""Modules and names of PyFlink's that Flott does not have: importing one says why, and what to use instead.

The import system asks this module last. A name that is added to Flott later is found before these tables are searched,
and must then be removed from them. A test checks this. ``docs/porting.md`` explains each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from flott.errors import AbsentModuleError, ProgramError

_CONNECTOR = (
    "Flott has no {} connector yet. Its own are in flott.datastream.connectors (files, collections, generated data,"
    " print); any other source or sink can be written in Python with flott.datastream.connectors.base"
)
_JAVA = "In PyFlink it reaches into the JVM; Flott's API is Python all the way down, and there is no such object"

#: By name in Flott: the reason, a sentence without its full stop.
MODULES: dict[str, str] = {
    "flott.table": "Flott has no Table API and no SQL yet; write the program with flott.datastream",
    "flott.datastream.connectors.kafka": _CONNECTOR.format("Kafka"),
    "flott.datastream.connectors.dynamic_kafka": _CONNECTOR.format("Kafka"),
    "flott.datastream.connectors.jdbc": _CONNECTOR.format("JDBC"),
    "flott.datastream.connectors.elasticsearch": _CONNECTOR.format("Elasticsearch"),
    "flott.datastream.connectors.cassandra": _CONNECTOR.format("Cassandra"),
    "flott.datastream.connectors.kinesis": _CONNECTOR.format("Kinesis"),
    "flott.datastream.connectors.pulsar": _CONNECTOR.format("Pulsar"),
    "flott.datastream.connectors.rabbitmq": _CONNECTOR.format("RabbitMQ"),
    "flott.datastream.connectors.hybrid_source": (
        "Flott has no HybridSource yet; read one source after the other in two jobs, or union() them"
    ),
    "flott.datastream.formats.avro": "Flott has no Avro format yet; use json, csv or parquet",
    "flott.datastream.formats.orc": "Flott has no ORC format; use flott.datastream.formats.parquet",
    "flott.common.io": "InputFormat names a Java class; use a source of flott.datastream.connectors",
    "flott.java_gateway": _JAVA,
    "flott.common.utils": _JAVA,
    "flott.datastream.utils": _JAVA,
    "flott.util": _JAVA,
}

_ROW_SCHEMA = "CSV rows as bytes are for connectors that Flott does not have yet; files are read and written by"
_AVRO = "Flott reads and writes Parquet through Arrow and knows no Avro; use the other names of this module"

NAMES: dict[str, str] = {
    "flott.common.AssignerWithPeriodicWatermarksWrapper": _JAVA,
    "flott.common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": _JAVA,
    "flott.common.serialization.BulkWriterFactory": "Bulk writers come from flott.datastream.formats",
    "flott.common.serialization.RowDataBulkWriterFactory": "Bulk writers come from flott.datastream.formats",
    "flott.datastream.formats.csv.CsvRowDeserializationSchema": f"{_ROW_SCHEMA} CsvReaderFormat",
    "flott.datastream.formats.csv.CsvRowSerializationSchema": f"{_ROW_SCHEMA} CsvBulkWriters or CsvEncoder",
    "flott.datastream.formats.parquet.AvroParquetReaders": _AVRO,
    "flott.datastream.formats.parquet.AvroParquetWriters": _AVRO,
}


class AbsentModules:
    """The last of the finders: finds nothing, and says why."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if (reason := MODULES.get(name)) is not None:
            raise AbsentModuleError(f"There is no {name}. {reason}. See docs/porting.md.", name=name)


def install() -> None:
    """Be asked for what no other finder knows."""
    if AbsentModules not in sys.meta_path:
        sys.meta_path.append(AbsentModules)


def names_of(module: str) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a module that lacks some of PyFlink's names."""

    def absent(name: str) -> NoReturn:
        if (reason := NAMES.get(f"{module}.{name}")) is not None:
            raise ProgramError(f"There is no {module}.{name}. {reason}. See docs/porting.md.")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return absent


def no_java_object(method: str) -> Callable[..., NoReturn]:
    """A method that hands out a Java object in PyFlink."""

    def refuse(self: object, *arguments: object) -> NoReturn:
        raise ProgramError(
            f"{type(self).__name__}.{method}() gives a Java object in PyFlink. Behind Flott's classes there is none:"
            " leave the call out. See docs/porting.md."
        )

    refuse.__name__ = method
    refuse.__doc__ = "Refused: there is no Java object behind it."
    return refuse
