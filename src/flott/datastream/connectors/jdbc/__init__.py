"""Databases: PostgreSQL (``flott[postgres]``), MySQL and MariaDB (``flott[mysql]``), SQLite (without an extra).

The names are PyFlink's; addresses are JDBC URLs, read with Python drivers. ``JdbcTableSink`` and ``JdbcSource`` are
Flott's own.
"""

from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions, JdbcExecutionOptions
from flott.datastream.connectors.jdbc._sink import JdbcSink
from flott.datastream.connectors.jdbc._source import JdbcSource
from flott.datastream.connectors.jdbc._table_sink import CommitBy, JdbcTableSink

__all__ = [
    "JdbcSink",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcTableSink",
    "JdbcSource",
    "CommitBy",
]
