"""Finds and cuts the files of a table, and leaves out those whose partition or name is not asked for. Driver side."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from flott.runtime.connectors.columns.partitions import partition_columns, partition_texts
from flott.runtime.connectors.files.discovery import FoundFile
from flott.runtime.connectors.files.enumerator import FileEnumerator
from flott.table._connectors.file_tables import TableFileSource
from flott.table._expressions.compiled import compile_expressions
from flott.table._functions.function import Session


class TableFileEnumerator(FileEnumerator):
    """Plans the reading of the files of a table."""

    def __init__(self, source: TableFileSource):
        super().__init__(source.files)
        self._table = source
        self._pattern = None if source.pattern is None else re.compile(source.pattern)

    def found(self) -> list[FoundFile]:
        files = super().found()
        if self._pattern is not None:
            files = [file for file in files if self._pattern.fullmatch(file.path)]
        if self._table.partition_filters and files:
            files = self._pruned(files)
        return files

    def _pruned(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files of partitions that the conditions of the query keep."""
        table = self._table
        texts = [partition_texts(file.path, table.partition_keys) for file in files]
        distinct = list(dict.fromkeys(texts))
        columns = partition_columns(distinct, table.partition_keys, table.partition_types, table.default_partition)
        compiled = compile_expressions(table.partition_filters)
        kept = [True] * len(distinct)
        for mask in compiled.evaluate(columns, Session()):
            values = mask.to_pylist() if isinstance(mask, pa.Array) else [mask.as_py()] * len(distinct)
            kept = [keep and value is True for keep, value in zip(kept, values, strict=True)]
        wanted = {text for text, keep in zip(distinct, kept, strict=True) if keep}
        return [file for file, text in zip(files, texts, strict=True) if text in wanted]
