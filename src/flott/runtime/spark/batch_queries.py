"""Runs queries of batch mode as Spark SQL, in a Spark session of their own. Driver side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ProgramError
from flott.runtime.spark.session import log_file_in, spark_context
from flott.table._connectors.table_source import SparkScan
from flott.table._plan.spark_sql.query import SESSION_SETTINGS, SparkQuery

if TYPE_CHECKING:
    import pyarrow as pa

#: Epochs run without it, because their stages are planned by the engine. Queries of SQL gain from it.
_ADAPTIVE = "spark.sql.adaptive.enabled"


class SparkBatchQueries:
    """Runs printed queries on the Spark application of this process, which is started if there is none."""

    def run(self, query: SparkQuery, configuration: Configuration) -> pa.Table:
        """Run a query and return its rows, in their order."""
        session = _session(configuration)
        names = [name for name, _ in query.tables]
        try:
            for name, scan in query.tables:
                _frame(session, scan).createOrReplaceTempView(name)
            return session.sql(query.text).toArrow()
        except PySparkException as error:
            raise ProgramError(f"Spark cannot run the query: {_reason(error)}") from error
        finally:
            for name in names:
                session.catalog.dropTempView(name)


def _session(configuration: Configuration) -> SparkSession:
    """Return a new session: its settings and its views are not those of the program's own."""
    given = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
    spark_context(given, log_file_in(options.read(configuration, options.LOG_DIR)))
    session = SparkSession.builder.getOrCreate().newSession()
    for key, value in {_ADAPTIVE: "true", **_of_sql(given), **SESSION_SETTINGS}.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _of_sql(given: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if key.startswith("spark.sql.")}


def _frame(session: SparkSession, scan: SparkScan) -> DataFrame:
    if scan.format == "arrow":
        return session.createDataFrame(scan.columns)
    paths = [Path(path).as_uri() for path in scan.paths]
    # The files were found already: Spark must not look for partitions in the names of folders.
    return session.read.schema(scan.schema).option("recursiveFileLookup", "true").parquet(*paths)


def _reason(error: Any) -> str:
    return str(error).partition("\n\n")[0].partition("\nJVM stacktrace")[0]
