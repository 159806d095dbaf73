"""What the resolver asks of the session: tables, views and functions by name, connectors, settings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from flott.table._catalog.catalog_table import CatalogTable, CatalogView, Identifier
from flott.table._connectors.table_source import LookupSource, TableSink, TableSource
from flott.table._expressions.expression import UserFunction
from flott.table._plan import logical
from flott.table._sql.nodes.queries import SqlQuery

#: What a name in FROM may stand for. A plan or a query is a view of a Table object of the program.
FoundObject: TypeAlias = CatalogTable | CatalogView | logical.Node | SqlQuery


@dataclass(frozen=True)
class FoundTable:
    """An object of a catalog with its whole name."""

    identifier: Identifier
    object: FoundObject


class ResolveEnvironment(Protocol):
    """The session, as far as the resolver knows it. Nothing here may run a query."""

    @property
    def catalog(self) -> str:
        """Return the name of the current catalog."""

    @property
    def database(self) -> str:
        """Return the name of the current database."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """Return the session's settings by key."""

    def find_table(self, path: tuple[str, ...]) -> FoundTable | None:
        """Return the table or view that a name of one to three parts stands for."""

    def table_names(self) -> Iterable[str]:
        """Return the names of tables and views that a name of one part may mean, for suggestions."""

    def find_function(self, path: tuple[str, ...]) -> UserFunction | None:
        """Return the function in Python that a name stands for. Temporary system functions come before built-in ones:
        the resolver asks here first."""

    def function_names(self) -> Iterable[str]:
        """Return the names of the functions in Python, for suggestions."""

    def query_of(self, table: Hashable) -> SqlQuery | logical.Node:
        """Return the query or the plan of a Table object (``SqlTableInput``)."""

    def source(self, identifier: Identifier, table: CatalogTable) -> TableSource:
        """Return the source of a table. Options of hints have been merged into the table's already."""

    def sink(self, identifier: Identifier, table: CatalogTable) -> TableSink:
        """Return the sink of a table."""

    def lookup(self, identifier: Identifier, table: CatalogTable) -> LookupSource | None:
        """Return how rows of a table are fetched by key; None if its connector cannot."""
