"""How the files of a bulk format are written, as values. The writers are in ``flott.runtime.connectors.files``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flott.errors import ProgramError


class BulkWriterFactory:
    """Describes a writer that makes one file of all the records of a bucket in an epoch."""

    @staticmethod
    def parquet(schema: Any = None, compression: str = "snappy") -> BulkWriterFactory:
        """Parquet files of dicts or named rows. Needs ``pyarrow``.

        ``schema`` is a ``pyarrow.Schema`` or a mapping such as ``{"id": "int64", "name": "string"}``; ``None``: taken
        from the first records of each file, which is only wise if every record has every field.
        """
        return ParquetWriterFactory(dict(schema) if isinstance(schema, Mapping) else schema, compression)

    @staticmethod
    def avro(schema: Any, codec: str = "deflate") -> BulkWriterFactory:
        """Avro files of dicts or rows. Needs ``fastavro``.

        ``schema`` is an ``AvroSchema`` or its JSON text; ``codec`` is null, deflate, bzip2, xz, snappy or zstandard.
        """
        return AvroWriterFactory(str(schema), codec)


@dataclass(frozen=True)
class ParquetWriterFactory(BulkWriterFactory):
    """Parquet files."""

    schema: Any = None  #: ``pyarrow.Schema``, dict of field name to Arrow type name, or ``None``
    compression: str = "snappy"


#: How the blocks of an Avro file may be compressed. The last two need a package of their own.
AVRO_CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard")


@dataclass(frozen=True)
class AvroWriterFactory(BulkWriterFactory):
    """Avro files."""

    schema: str  #: JSON
    codec: str = "deflate"

    def __post_init__(self) -> None:
        if self.codec not in AVRO_CODECS:
            raise ProgramError(f"The codec of an Avro file is one of {', '.join(AVRO_CODECS)}, found {self.codec!r}.")
