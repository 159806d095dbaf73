"""How the files of a bulk format are written, as values. The writers are in ``flott.runtime.connectors.files``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class BulkWriterFactory:
    """Describes a writer that makes one file of all the records of a bucket in an epoch."""

    @staticmethod
    def parquet(schema: Any = None, compression: str = "snappy") -> BulkWriterFactory:
        """Parquet files of dicts or named rows. Needs ``pyarrow``.

        ``schema`` is a ``pyarrow.Schema`` or a mapping such as ``{"id": "int64", "name": "string"}``; ``None``: taken
        from the first records of each file, which is only wise if every record has every field.
        """
        return ParquetWriterFactory(dict(schema) if isinstance(schema, Mapping) else schema, compression)


@dataclass(frozen=True)
class ParquetWriterFactory(BulkWriterFactory):
    """Parquet files."""

    schema: Any = None  #: ``pyarrow.Schema``, dict of field name to Arrow type name, or ``None``
    compression: str = "snappy"
