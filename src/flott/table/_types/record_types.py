"""The rows of a table as records of a stream: what a batch of columns says its rows are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from flott.common.typeinfo import Types
from flott.common.typeinfo._composite import RowTypeInfo
from flott.table._types.logical import LogicalType


class NamedColumns(Protocol):
    """Whatever has names and types of columns."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> tuple[LogicalType, ...]: ...


class TableRowTypeInfo(RowTypeInfo):
    """Rows whose columns have logical types. Names that occur twice, as in a join, are told apart by a number."""

    __slots__ = ("_logical_types",)

    _logical_types: tuple[LogicalType, ...]

    def __init__(self, names: Sequence[str], types: Sequence[LogicalType]):
        super().__init__([Types.PICKLED_BYTE_ARRAY()] * len(types), distinct_names(names))
        object.__setattr__(self, "_logical_types", tuple(types))

    def __reduce__(self) -> Any:
        return TableRowTypeInfo, (tuple(self.get_field_names()), self._logical_types)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TableRowTypeInfo)
            and self._record_names == other._record_names
            and self._logical_types == other._logical_types
        )

    def __hash__(self) -> int:
        return hash((self._record_names, self._logical_types))

    def arrow_schema(self) -> Any:
        """Return the Arrow schema of the rows as columns."""
        from flott.table._types.arrow import arrow_schema

        return arrow_schema(self.get_field_names(), self._logical_types)


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return names with a number behind each that occurred before."""
    taken: set[str] = set()
    found = []
    for name in names:
        candidate, number = name, 0
        while candidate in taken:
            candidate, number = f"{name}{number}", number + 1
        taken.add(candidate)
        found.append(candidate)
    return found


def record_type_of(columns: NamedColumns) -> TableRowTypeInfo:
    """Return the record type of columns."""
    return _record_type(tuple(columns.names), tuple(columns.types))


@lru_cache(maxsize=1024)
def _record_type(names: tuple[str, ...], types: tuple[LogicalType, ...]) -> TableRowTypeInfo:
    return TableRowTypeInfo(names, types)
