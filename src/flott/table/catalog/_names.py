"""Names of objects of catalogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flott.errors import ProgramError
from flott.table._types import logical


@dataclass(frozen=True)
class ObjectPath:
    """The name of an object in a catalog: database and object."""

    database_name: str
    object_name: str

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self.database_name

    def get_object_name(self) -> str:
        """Return the name of the object."""
        return self.object_name

    def get_full_name(self) -> str:
        """Return both names with a point between them."""
        return f"{self.database_name}.{self.object_name}"

    def compare_to(self, other: ObjectPath) -> int:
        """Return a negative number, 0 or a positive one, by the order of the full names."""
        mine, others = self.get_full_name(), other.get_full_name()
        return (mine > others) - (mine < others)

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Return the name that a text such as ``database.table`` is."""
        database, point, name = full_name.partition(".")
        if not point or not name:
            raise ProgramError(f"Found {full_name!r}, expected the names of a database and an object: database.table")
        return ObjectPath(database, name)

    def __str__(self) -> str:
        return self.get_full_name()


@dataclass(frozen=True)
class ObjectIdentifier:
    """The whole name of an object: catalog, database and object."""

    catalog_name: str
    database_name: str
    object_name: str

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Return the name of these parts."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    @staticmethod
    def of_name(parts: Sequence[str]) -> ObjectIdentifier | None:
        """Return the name of three parts; None if some are missing."""
        return ObjectIdentifier(*parts) if len(parts) == 3 else None

    def get_catalog_name(self) -> str:
        """Return the name of the catalog."""
        return self.catalog_name

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self.database_name

    def get_object_name(self) -> str:
        """Return the name of the object."""
        return self.object_name

    def to_object_path(self) -> ObjectPath:
        """Return the name without the catalog."""
        return ObjectPath(self.database_name, self.object_name)

    def to_list(self) -> list[str]:
        """Return the parts."""
        return [self.catalog_name, self.database_name, self.object_name]

    def as_serializable_string(self) -> str:
        """Return the name in backquotes."""
        return ".".join(logical.quoted(part) for part in self.to_list())

    def as_summary_string(self) -> str:
        """Return the name without quotes."""
        return ".".join(self.to_list())

    def __str__(self) -> str:
        return self.as_serializable_string()
