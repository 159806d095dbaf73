"""Converts what a table holds from the types of the files it was read from to those declared now. Task side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flott.common._ids import KeyGroup
from flott.errors import StateMigrationError, TypeMismatchError
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Conversion, GroupOf, Table, TableKind
from flott.runtime.managed_state.schema.evolution import Convert
from flott.runtime.managed_state.schema.state_types import ConvertValues, StateTypes, conversion, key_conversion

if TYPE_CHECKING:
    from flott.runtime.managed_state.backends.hashmap import KeyedState

#: What files said about a table, for some key groups each.
Said = list[tuple[range, TableHeader]]

#: So many entries are converted in one go.
_STEP = 4096


class Rewriting:
    """Converts one table. ``what`` names it in messages."""

    def __init__(self, what: str, types: StateTypes, *, stamped: bool, paged: bool):
        self._what = what
        self._types = types
        self._stamped = stamped  #: values stand beside the time of their last access
        self._paged = paged  #: what is not marked as changed is forgotten
        self._verdicts: dict[int, tuple[TableHeader, Convert | None, Convert | None]] = {}

    def concerns(self, header: TableHeader) -> bool:
        """Return whether anything is to be done, or refused, once there is an entry."""
        try:
            _, values, keys = self._verdict(header)
        except StateMigrationError:
            return True
        return values is not None or keys is not None

    def run(self, table: Table, said: Said, state: KeyedState) -> None:
        """Convert everything the table holds."""
        kind, grouping = kind_of(table.kind), state.grouping(table)

        def group_of(entry: Any) -> KeyGroup:
            return grouping(kind.key_of(table, entry))

        renewed = False
        for entries in _steps(kind, table):
            for header, chosen in _by_header(entries, said, group_of):
                conversion = self._conversion(header)
                kind.convert(table, chosen, conversion)
                renewed |= conversion.marks
            state.make_room()
        if renewed:
            kind.converted(table)

    def _verdict(self, header: TableHeader) -> tuple[TableHeader, Convert | None, Convert | None]:
        found = self._verdicts.get(id(header))
        if found is None:
            what, types = self._what, self._types
            keys = key_conversion(what, header.map_key_type, types) if kind_of(header.kind).has_map_keys else None
            found = header, conversion(what, header.value_type, types), keys
            self._verdicts[id(header)] = found
        return found

    def _conversion(self, header: TableHeader) -> Conversion:
        _, of_values, of_keys = self._verdict(header)
        values, keys = self._unstamped(of_values), None if of_keys is None else of_keys.function
        return Conversion(
            lambda held, entries: self._apply(values, held, entries),
            lambda held, entries: self._apply(keys, held, entries),
            self._paged or any(one is not None and one.rewrites for one in (of_values, of_keys)),
        )

    def _apply(self, function: ConvertValues | None, values: list[Any], entries: list[Any]) -> list[Any]:
        if function is None:
            return values
        try:
            return function(values)
        except TypeMismatchError as error:
            culprit = entries[error.index if error.index is not None and len(entries) > 1 else 0]
            raise StateMigrationError(
                f"{self._what} cannot be restored, because of key {culprit!r}: {error} Declare the type that it has, or"
                f" {self._types.way_out}"
            ) from error

    def _unstamped(self, convert: Convert | None) -> ConvertValues | None:
        if convert is None or not self._stamped:
            return None if convert is None else convert.function
        function = convert.function

        def stamped(pairs: list[Any]) -> list[Any]:
            converted = function([value for value, _ in pairs])
            return [(value, stamp) for value, (_, stamp) in zip(converted, pairs, strict=True)]

        return stamped


# --- the entries of a table ------------------------------------------------------------------------------------------


def _steps(kind: TableKind[Any, Any], table: Table) -> Iterator[list[tuple[Any, Any]]]:
    cursor = None
    while True:
        entries, cursor = kind.walk(table, cursor, _STEP)
        if entries:
            yield entries
        if cursor is None:
            return


def _by_header(
    entries: list[tuple[Any, Any]], said: Said, group_of: GroupOf
) -> Iterable[tuple[TableHeader, list[tuple[Any, Any]]]]:
    """Return the entries by what was said about their key groups."""
    if len(said) == 1:
        return [(said[0][1], entries)]
    found: dict[int, tuple[TableHeader, list[tuple[Any, Any]]]] = {}
    for one in entries:
        group = group_of(one[0])
        header = next(header for groups, header in said if group in groups)
        found.setdefault(id(header), (header, []))[1].append(one)
    return found.values()
