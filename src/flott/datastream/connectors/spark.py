"""Spark's DataFrames as input, and Spark's tables as output of a bounded job, each record exactly once.

Specifications; what reads and writes is in ``flott.runtime.connectors.spark_tables``. Spark itself is used through the
DataFrame that the program gives, and through the session of the job's driver.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.datastream.connectors.base import (
    Committer,
    Guarantee,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.errors import ProgramError

__all__ = ["DataFrameSource", "SparkTableSink", "SparkTableSinkBuilder"]

_MODES = ("append", "overwrite")


@dataclass(frozen=True)
class DataFrameSource(Source[Any]):
    """Reads the rows of a DataFrame, which were written to files when the source was made.

    The files are deleted when a checkpoint says that all of them were read, unless they are to be kept.
    """

    folder: str
    names: tuple[str, ...]
    keep: bool = False  #: leave the files, so that a savepoint of the job can be restored later

    @staticmethod
    def of(dataframe: Any, staging_folder: str, keep: bool = False) -> DataFrameSource:
        """Compute a DataFrame and write it to files in a new folder below ``staging_folder``.

        Spark may compute the rows of a DataFrame in another order each time, so a job that is repeated in part must not
        compute it again.
        """
        if not hasattr(dataframe, "write") or not hasattr(dataframe, "columns"):
            raise ProgramError(
                f"from_spark() takes a DataFrame of Spark, found {dataframe!r} of type {type(dataframe).__name__}."
            )
        names = tuple(dataframe.columns)
        if len(set(names)) != len(names):
            raise ProgramError(f"The columns of a DataFrame must have different names here, found {list(names)}.")
        folder = f"{absolute_path(staging_folder).rstrip('/')}/dataframe-{uuid4().hex}"
        dataframe.write.parquet(folder if "://" in folder else f"file://{folder}")
        return DataFrameSource(folder, names, keep)

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.spark_tables.dataframes import DataFrameEnumerator

        return DataFrameEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.spark_tables.dataframes import make_reader

        return make_reader()


@dataclass(frozen=True)
class SparkTableSink(Sink[Any]):
    """Writes the rows of a bounded job into a table of Spark's catalog, when the job has finished.

    >>> sink = SparkTableSink.for_table("shop.orders", {"id": "int64"}).with_staging_folder("/shared/staging").build()
    >>> sink.table
    'shop.orders'
    """

    table: str
    schema: Any  #: of the rows: pyarrow.Schema, mapping, or Types.ROW_NAMED(...)
    mode: str = "append"
    staging_folder: str = ""

    @staticmethod
    def for_table(table: str, schema: Any) -> SparkTableSinkBuilder:
        """Start building a sink. Spark creates the table if it is not there."""
        return SparkTableSinkBuilder(SparkTableSink(table, schema))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.spark_tables.committer import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.spark_tables.writer import SparkTableWriter

        return SparkTableWriter(self, context)

    def create_committer(self) -> Committer:
        from flott.runtime.connectors.spark_tables.committer import SparkTableCommitter

        return SparkTableCommitter(self)


class SparkTableSinkBuilder:
    """Collects the settings of a :class:`SparkTableSink`."""

    def __init__(self, sink: SparkTableSink):
        self._sink = sink

    def with_mode(self, mode: str) -> SparkTableSinkBuilder:
        """Set what becomes of rows that are in the table: ``append`` keeps them, ``overwrite`` replaces them."""
        if mode not in _MODES:
            raise ProgramError(f"A table is written by append or overwrite, found {mode!r}.")
        self._sink = replace(self._sink, mode=mode)
        return self

    def with_staging_folder(self, folder: str) -> SparkTableSinkBuilder:
        """Set where rows wait until the job has finished: a place that the driver, all tasks and Spark can reach."""
        self._sink = replace(self._sink, staging_folder=absolute_path(folder))
        return self

    def build(self) -> SparkTableSink:
        """Return the sink."""
        if not self._sink.staging_folder:
            return replace(self._sink, staging_folder=staging_folder(Configuration()))
        return self._sink


def staging_folder(configuration: Configuration) -> str:
    """Return where rows wait by default: below the checkpoints, or in the temporary folder of this machine."""
    checkpoints = options.read(configuration, options.CHECKPOINT_DIR)
    if checkpoints:
        return f"{absolute_path(checkpoints)}/spark-staging"
    return os.path.join(tempfile.gettempdir(), f"flott-{getpass.getuser()}", "spark-staging")
