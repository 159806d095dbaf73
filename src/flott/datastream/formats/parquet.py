"""Parquet files of rows, under PyFlink's names. Values only: ``flott.runtime.connectors.files`` imports pyarrow.

A row type is any object with ``field_names()``, as in the Table API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flott._absent import names_of
from flott.datastream.connectors.file_system._bulk_writers import ParquetWriterFactory
from flott.datastream.connectors.file_system._formats import ParquetFormat
from flott.errors import ProgramError

__all__ = ["ParquetColumnarRowInputFormat", "ParquetBulkWriters"]


@dataclass(frozen=True, init=False)
class ParquetColumnarRowInputFormat(ParquetFormat):
    """Reads the columns of a row type, as rows."""

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ):
        if not is_case_sensitive:
            raise ProgramError("Column names of Parquet files are case-sensitive in Flott: use the names of the file.")
        ParquetFormat.__init__(self, tuple(field_names(row_type)), record="row", batch_size=batch_size)


class ParquetBulkWriters:
    """Writes rows as Parquet files."""

    @staticmethod
    def for_row_type(row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = False) -> ParquetWriterFactory:
        """Return the factory for ``FileSink.for_bulk_format``."""
        return ParquetWriterFactory({name: arrow_type(row_type, name) for name in field_names(row_type)})


def field_names(row_type: Any) -> list[str]:
    """Return the names of a row type's fields, of the Table API or of ``Types.ROW_NAMED``."""
    for method in ("field_names", "get_field_names"):
        if hasattr(row_type, method):
            return list(getattr(row_type, method)())
    raise ProgramError(f"Expected the type of a row, such as DataTypes.ROW([…]), found {row_type!r}.")


#: Arrow's names for types of the Table API and of ``Types``, by the name of their class or of the type itself.
_ARROW_TYPES = {
    "VarCharType": "string", "CharType": "string", "BooleanType": "bool", "TinyIntType": "int8",
    "SmallIntType": "int16", "IntType": "int32", "BigIntType": "int64", "FloatType": "float32",
    "DoubleType": "float64", "DateType": "date32", "VarBinaryType": "binary", "BinaryType": "binary",
}  # fmt: skip


def arrow_type(row_type: Any, name: str) -> str:
    """Return the Arrow type of a field."""
    field = next((field for field in getattr(row_type, "fields", ()) if field.name == name), None)
    kind = type(field.data_type).__name__ if field is not None else ""
    if kind not in _ARROW_TYPES:
        raise ProgramError(
            f"Flott cannot derive the Parquet type of the field {name!r} from {row_type!r}: pass"
            " BulkWriterFactory.parquet(schema) with a pyarrow schema."
        )
    return _ARROW_TYPES[kind]

if not TYPE_CHECKING:  # otherwise a type checker accepts any name of this module
    __getattr__ = names_of(__name__)
