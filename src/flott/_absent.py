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

_JAVA = "In PyFlink it reaches into the JVM; Flott's API is Python all the way down, and there is no such object"

#: By name in Flott: the reason, a sentence without its full stop.
MODULES: dict[str, str] = {
    "flott.datastream.connectors.dynamic_kafka": (
        "Flott reads one Kafka cluster for each source; use KafkaSource, and union() for several"
    ),
    "flott.datastream.formats.orc": "Flott has no ORC format; use flott.datastream.formats.parquet",
    "flott.common.io": "InputFormat names a Java class; use a source of flott.datastream.connectors",
    "flott.table.descriptors": "PyFlink's legacy descriptors; use Schema and TableDescriptor",
    "flott.table.functions": "PyFlink's own aggregate functions; use those of SQL, or write an AggregateFunction",
    "flott.table.model_descriptor": "Flott runs no models; call one in a function in Python",
    "flott.table.resolved_expression": _JAVA,
    "flott.table.serializers": "Rows cross processes as Arrow columns, and there is nothing to choose",
    "flott.table.utils": _JAVA,
    "flott.java_gateway": _JAVA,
    "flott.common.utils": _JAVA,
    "flott.datastream.utils": _JAVA,
    "flott.util": _JAVA,
}

_NOT_HELD = "Flott's catalogs hold tables, views and functions; use these"
_UDT = "It names a Java class; use DataTypes.ROW"

_AVRO = "Flott reads and writes Parquet through Arrow and knows no Avro; use the other names of this module"

NAMES: dict[str, str] = {
    "flott.table.UserDefinedType": _UDT,
    "flott.table.types.UserDefinedType": _UDT,
    "flott.table.catalog.CatalogPartition": _NOT_HELD,
    "flott.table.catalog.Procedure": _NOT_HELD,
    "flott.table.catalog.CatalogTableStatistics": _NOT_HELD,
    "flott.table.catalog.CatalogColumnStatistics": _NOT_HELD,
    "flott.table.catalog.HiveCatalog": "Flott has no Hive catalog; a catalog of type 'file' keeps definitions",
    "flott.common.AssignerWithPeriodicWatermarksWrapper": _JAVA,
    "flott.common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": _JAVA,
    "flott.common.serialization.BulkWriterFactory": "Bulk writers come from flott.datastream.formats",
    "flott.common.serialization.RowDataBulkWriterFactory": "Bulk writers come from flott.datastream.formats",
    "flott.datastream.formats.avro.AvroInputFormat": (
        "InputFormat names a Java class; read Avro files with FileSource and StreamFormat.avro_format(schema)"
    ),
    "flott.datastream.formats.parquet.AvroParquetReaders": _AVRO,
    "flott.datastream.formats.parquet.AvroParquetWriters": _AVRO,
}


class AbsentModules:
    """The last of the finders: finds nothing, and says why."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if (reason := MODULES.get(name)) is not None:
            refusal = AbsentModuleError(f"There is no {name}. {reason}. See docs/porting.md.")
            refusal.name = name  # as the import system sets it
            raise refusal


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
