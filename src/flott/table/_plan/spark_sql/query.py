"""What the printer gives: a query of Spark and the tables that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from flott.errors import ProgramError
from flott.table._connectors.table_source import SparkScan
from flott.table._plan.logical import Schema

#: Settings of the Spark session in which printed queries run. Text and settings belong together.
SESSION_SETTINGS = {
    "spark.sql.ansi.enabled": "false",  # integers wrap around, as in Flink; divisions by zero are written out
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}


class NotExpressible(ProgramError):
    """Spark has no expression with the same result. The message names what it is about."""


@dataclass(frozen=True)
class SparkQuery:
    """A query: its text, the tables it reads by the names in the text, and the columns of its rows by position."""

    text: str
    tables: tuple[tuple[str, SparkScan], ...]
    schema: Schema
