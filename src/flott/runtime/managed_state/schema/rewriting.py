"""Brings what a table holds from the types of the files it was read from to those that are declared now. Task side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flott.errors import StateMigrationError, TypeMismatchError
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.schema.evolution import Convert
from flott.runtime.managed_state.schema.state_types import Conversion, StateTypes, conversion, key_conversion
from flott.runtime.managed_state.ttl.expiry import walk

if TYPE_CHECKING:
    from flott.runtime.managed_state.backends.hashmap import KeyedState

#: A table that holds values.
TypedTable = ValueTable | ListTable | MapTable | PaneTable | TimelineTable

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
        """Whether anything is to be done, or refused, once there is an entry."""
        try:
            _, values, keys = self._verdict(header)
        except StateMigrationError:
            return True
        return values is not None or keys is not None

    def run(self, table: TypedTable, said: Said, state: KeyedState) -> None:
        """Convert everything the table holds."""
        group_of = _grouping(table, state)
        renewed = False
        for entries in _steps(table):
            for header, chosen in _by_header(entries, said, group_of):
                renewed |= self._convert(table, chosen, header)
            state.make_room()
        if renewed and isinstance(table, TimelineTable):
            table.renew()

    def _verdict(self, header: TableHeader) -> tuple[TableHeader, Convert | None, Convert | None]:
        found = self._verdicts.get(id(header))
        if found is None:
            what, types = self._what, self._types
            keys = key_conversion(what, header.map_key_type, types) if header.kind == MapTable.kind else None
            found = header, conversion(what, header.value_type, types), keys
            self._verdicts[id(header)] = found
        return found

    def _convert(self, table: TypedTable, entries: list[tuple[Any, Any]], header: TableHeader) -> bool:
        """Convert what these entries hold; returns whether it must be saved anew."""
        _, of_values, of_keys = self._verdict(header)
        marks = self._paged or any(one is not None and one.rewrites for one in (of_values, of_keys))
        values = self._unstamped(of_values)
        match table:
            case ValueTable():
                names, held = [entry for entry, _ in entries], [value for _, value in entries]
                _put_values(table, names, held, self._apply(values, held, names), marks)
            case ListTable():
                for entry, items in entries:
                    _put_list(table, entry, self._apply(values, list(items), [entry]), marks)
            case MapTable():
                keys = None if of_keys is None else of_keys.function
                for entry, items in entries:
                    map_keys = self._apply(keys, list(items), [entry])
                    converted = self._apply(values, list(items.values()), [entry])
                    _put_map(table, entry, dict(zip(map_keys, converted, strict=True)), marks)
            case ListPaneTable():
                for (pane, key), items in entries:
                    items[:] = self._apply(values, items, [key])
                    _put_in_pane(table, pane, key, items, marks)
            case PaneTable():
                keys_held, held = [key for (_, key), _ in entries], [value for _, value in entries]
                for ((pane, key), _), value in zip(entries, self._apply(values, held, keys_held), strict=True):
                    _put_in_pane(table, pane, key, value, marks)
            case TimelineTable():
                for key, (_, waiting) in entries:
                    waiting[:] = self._apply(values, waiting, [key])
        return marks

    def _apply(self, function: Conversion | None, values: list[Any], entries: list[Any]) -> list[Any]:
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

    def _unstamped(self, convert: Convert | None) -> Conversion | None:
        if convert is None or not self._stamped:
            return None if convert is None else convert.function
        function = convert.function

        def stamped(pairs: list[Any]) -> list[Any]:
            converted = function([value for value, _ in pairs])
            return [(value, stamp) for value, (_, stamp) in zip(converted, pairs, strict=True)]

        return stamped


# --- the entries of a table ------------------------------------------------------------------------------------------


def _grouping(table: TypedTable, state: KeyedState) -> Callable[[Any], int]:
    group_of = state.grouping(table)
    return (lambda entry: group_of(entry[1])) if isinstance(table, PaneTable) else group_of


def _steps(table: TypedTable) -> Iterator[list[tuple[Any, Any]]]:
    cursor = None
    while True:
        walked = table.walk(cursor, _STEP) if isinstance(table, PaneTable) else walk(table, cursor, _STEP)
        entries, cursor = walked
        if entries:
            yield entries
        if cursor is None:
            return


def _by_header(
    entries: list[tuple[Any, Any]], said: Said, group_of: Callable[[Any], int]
) -> Iterable[tuple[TableHeader, list[tuple[Any, Any]]]]:
    """The entries by what was said about their key groups."""
    if len(said) == 1:
        return [(said[0][1], entries)]
    found: dict[int, tuple[TableHeader, list[tuple[Any, Any]]]] = {}
    for one in entries:
        group = group_of(one[0])
        header = next(header for groups, header in said if group in groups)
        found.setdefault(id(header), (header, []))[1].append(one)
    return found.values()


def _put_values(
    table: ValueTable, entries: list[Any], former: list[Any], values: list[Any], marks: bool
) -> None:
    for entry, old, new in zip(entries, former, values, strict=True):
        if new is None and old is not None:
            table.discard(entry)  # as a program does that sets a value to None
            continue
        table.entries[entry] = new
        if marks:
            table.changed[entry] = None


def _put_list(table: ListTable, entry: Any, items: list[Any], marks: bool) -> None:
    if marks:
        table.replace(entry, items)
    else:
        table.entries[entry][:] = items


def _put_map(table: MapTable, entry: Any, items: dict[Any, Any], marks: bool) -> None:
    if marks:
        table.clear_entry(entry)
        for map_key, value in items.items():
            table.put_item(entry, map_key, value)
    else:
        table.entries[entry] = items


def _put_in_pane(table: PaneTable, pane: Any, key: Any, value: Any, marks: bool) -> None:
    held, marked = table.open(pane)
    held[key] = value
    if marks:
        marked[key] = 0  # to be saved from its beginning
