"""The bounded source: the rows of a query, in partitions. A specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._composite import RowTypeInfo
from flott.common.typeinfo._records import RecordTypeInfo
from flott.datastream.connectors.base import Source, SourceReader, SplitEnumerator
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.errors import ProgramError


@dataclass(frozen=True)
class JdbcSource(Source[Any]):
    """Reads a table or a query once, and ends. Its records are rows with the names of the columns.

    With a partition column the rows are read in ranges of it, by several subtasks at once, and a restart reads only the
    ranges that were not complete. Without one everything is one range. A range that has to be read again is read with a
    new query: it may then see what others have changed in the meantime, so read tables that do not change, or accept
    that.

    >>> JdbcSource.builder().set_url("jdbc:sqlite:/tmp/shop.db").set_table("orders").build().query
    'SELECT * FROM orders'
    """

    connection_options: JdbcConnectionOptions
    query: str
    partition_column: str | None = None
    partitions: int = 1
    bounds: tuple[Any, Any] | None = None  #: None: the least and the greatest value that the column has at the start
    type_info: TypeInformation | None = None
    fetch_size: int = 5000

    @staticmethod
    def builder() -> JdbcSource.Builder:
        """Start building."""
        return JdbcSource.Builder()

    @property
    def preferred_parallelism(self) -> int | None:
        return 1 if self.partition_column is None else None

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.jdbc.source import JdbcEnumerator

        return JdbcEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.jdbc.source import JdbcReader

        return JdbcReader(self)

    class Builder:
        """Collects the settings of a source."""

        def __init__(self) -> None:
            self._connection_options: JdbcConnectionOptions | None = None
            self._query = ""
            self._settings: dict[str, Any] = {}

        def set_connection_options(self, options: JdbcConnectionOptions) -> JdbcSource.Builder:
            """Set where the database is; needed for more than a URL, a user and a password."""
            self._connection_options = options
            return self

        def set_url(self, url: str, user_name: str | None = None, password: str | None = None) -> JdbcSource.Builder:
            """Set where the database is, such as jdbc:postgresql://host:5432/database."""
            self._connection_options = JdbcConnectionOptions(url, user_name, password)
            return self

        def set_table(self, table: str, *columns: str) -> JdbcSource.Builder:
            """Read a table: these columns, or all. The names are put into the query as they are."""
            self._query = f"SELECT {', '.join(columns) or '*'} FROM {table}"
            return self

        def set_query(self, query: str) -> JdbcSource.Builder:
            """Read what a query returns, without ORDER BY."""
            self._query = query.rstrip().rstrip(";")
            return self

        def set_partitions(
            self, column: str, partitions: int, lower: Any = None, upper: Any = None
        ) -> JdbcSource.Builder:
            """Read in ranges of a column of numbers, dates or times, which should have an index.

            ``lower`` and ``upper`` say where most values are, to save the query for the least and the greatest value.
            They exclude nothing: the first range has no lower end and the last one no upper end.
            """
            if partitions < 1:
                raise ProgramError(f"A source has at least one partition, found {partitions}.")
            if (lower is None) != (upper is None):
                raise ProgramError("Give both bounds of the partition column, or none.")
            self._settings |= {"partition_column": column, "partitions": partitions}
            if lower is not None:
                self._settings["bounds"] = (lower, upper)
            return self

        def set_type_info(self, type_info: TypeInformation) -> JdbcSource.Builder:
            """Set the type of the records: Types.ROW_NAMED([...], [...]), or a record class with the columns' names."""
            if not isinstance(type_info, RowTypeInfo | RecordTypeInfo):
                raise ProgramError(f"A JdbcSource reads rows or instances of a record class, found {type_info!r}.")
            self._settings["type_info"] = type_info
            return self

        def set_fetch_size(self, rows: int) -> JdbcSource.Builder:
            """Set how many rows are fetched at a time."""
            self._settings["fetch_size"] = max(1, rows)
            return self

        def build(self) -> JdbcSource:
            """Return the source."""
            if self._connection_options is None:
                raise ProgramError("The source has no database. Call set_url('jdbc:postgresql://host/database').")
            if not self._query:
                raise ProgramError(
                    "The source has nothing to read. Call set_table('orders') or set_query('SELECT ...')."
                )
            return JdbcSource(self._connection_options, self._query, **self._settings)
