"""Queries of batch mode that Spark runs as SQL: which ones, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flott import execution
from flott.common.configuration import Configuration
from flott.common.types import Row, restore_row
from flott.errors import ConfigurationError
from flott.table._environment.settings import is_batch
from flott.table._plan.logical import Node, Schema, SinkNode
from flott.table._plan.optimize import optimize
from flott.table._plan.spark_sql.printer import spark_query
from flott.table._plan.spark_sql.query import NotExpressible, SparkQuery
from flott.table._types.record_types import record_type_of

#: Whether queries of batch mode are given to Spark SQL where it has the same results.
ON_SPARK_SQL = "table.exec.batch.spark-sql"


def batch_query(plan: Node, configuration: Mapping[str, str]) -> SparkQuery | str:
    """Return a plan as a query of Spark, or the reason why the operators of streams run it."""
    enabled = configuration.get(ON_SPARK_SQL, "true").lower()
    if enabled not in ("true", "false"):
        raise ConfigurationError(f"{ON_SPARK_SQL} is true or false, found {enabled!r}.")
    if enabled == "false":
        return f"{ON_SPARK_SQL} is false"
    if configuration.get("execution.target", "spark") != "spark":
        return "the job does not run on Spark in this process"
    if isinstance(plan, SinkNode):
        return "it writes into a table"
    try:
        return spark_query(optimize(plan, streaming=False))
    except NotExpressible as reason:
        return f"Spark SQL has no equal of {reason}"


def explained(plan: Node, configuration: Mapping[str, str]) -> str:
    """Return what EXPLAIN shows of batch mode; empty in streaming mode."""
    if not is_batch(configuration):
        return ""
    found = batch_query(plan, configuration)
    if isinstance(found, str):
        return f"== Spark SQL ==\n\nNot used: {found}. The operators of streams run it once.\n"
    return f"== Spark SQL ==\n\n{found.text}\n"


def run(query: SparkQuery, configuration: Configuration) -> Iterator[Row] | None:
    """Run a query and return its rows; None if the executor of the configuration does not run such queries."""
    queries = execution.batch_queries_of(configuration)
    return None if queries is None else _rows(queries.run(query, configuration), query.schema)


def _rows(table: Any, schema: Schema) -> Iterator[Row]:
    record_type = record_type_of(schema)
    names = tuple(record_type.get_field_names())
    wanted = record_type.arrow_schema()
    for batch in table.to_batches():
        columns = [
            (column if column.type == field.type else column.cast(field.type)).to_pylist()
            for column, field in zip(batch.columns, wanted, strict=True)
        ]
        for row in zip(*columns, strict=True):
            yield restore_row(names, row, 0)
