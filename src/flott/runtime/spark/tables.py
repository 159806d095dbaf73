"""Writes Parquet files into tables of Spark's catalog, for sinks into Spark tables. Driver side."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flott.errors import ConnectorError
from flott.runtime.connectors.spark_tables.session import provide


class SparkTables:
    """The tables of the session of this process: a JobManager's, or the program's own."""

    def count(self, table: str) -> int | None:
        """Return how many rows a table has; None: there is none."""
        session = SparkSession.builder.getOrCreate()
        try:
            return session.table(table).count() if session.catalog.tableExists(table) else None
        except PySparkException as error:
            raise ConnectorError(f"Spark cannot read the table {table}: {_first_line(error)}") from error

    def write(self, table: str, mode: str, files: Sequence[str]) -> None:
        """Write the rows of Parquet files into a table."""
        session = SparkSession.builder.getOrCreate()
        places = [file if "://" in file else f"file://{file}" for file in files]
        try:
            session.read.parquet(*places).write.mode(mode).saveAsTable(table)
        except PySparkException as error:
            raise ConnectorError(f"Spark cannot write into the table {table}: {_first_line(error)}") from error


def offer_tables() -> None:
    """Let connectors of this process use the tables of Spark."""
    provide(SparkTables())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
