"""What a kind of state is: everything that Flott needs to know about one shape of table.

A kind stands in one module: its delta, its table in memory, its table over rows of a database, and a ``TableKind`` that
answers the questions of the other packages:

    files       which columns a delta has, and the part of it that concerns one key
    schema      how values are checked against declared types, and converted when these change
    ttl         what of an entry has expired
    snapshots   how entries become rows of a table for users, and entries again

``kinds.registry`` lists all kinds. Outside of this package no code asks of which kind a table is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from flott.common._ids import KeyGroup
from flott.common.typeinfo import TypeInformation
from flott.errors import StateError
from flott.runtime.managed_state.files.column_bodies import Cursor, Parts
from flott.runtime.managed_state.files.section_columns import SectionTypes
from flott.runtime.managed_state.paging.row_store import TablePlace

#: The delta of a table of any kind. Each kind's module defines the type of its own deltas.
Delta = Any
#: What gives the key group of an entry.
GroupOf = Callable[[Any], KeyGroup]
#: Key, namespace (None where there are no windows), what is held.
Entry = tuple[Any, Any, Any]
#: Whether an entry of a table (a key, or a key and its namespace) is wanted.
Wanted = Callable[[Any], bool]
#: What makes values of the declared type of a batch of saved ones.
Convert = Callable[[list[Any]], list[Any]]

T = TypeVar("T", bound="Table")
D = TypeVar("D")


class Table(Protocol):
    """What one named state of one operator subtask holds, and what changed in it since it was last saved.

    A delta is exact, and *repeatable*: several deltas merged into one may be applied to a copy that already contains
    the first few of them.
    """

    kind: ClassVar[str]
    namespaced: bool

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, Any]:
        """Return the changes since the last call, by key group, and forget them."""

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, Any]:
        """Return everything, by key group, as the changes that would rebuild it from nothing."""

    def apply(self, delta: Any) -> None:
        """Apply changes that another copy of the table drained or dumped."""

    @staticmethod
    def merge(deltas: Iterable[Any]) -> Any:
        """Return several deltas of one key group, oldest first, as one. The deltas may be changed."""

    def empty(self) -> None:
        """Forget everything. The containers stay the same objects, because handles of the program refer to them."""

    def has_changes(self) -> bool:
        """Return whether anything changed since the last ``drain``."""

    def size(self) -> int:
        """Return the number of entries."""


@runtime_checkable
class TakesChanges(Protocol):
    """A table that can take its changes aside in no time, to make deltas of them later."""

    def take(self) -> TakenChanges:
        """Return the changes since the last call or ``drain``, and forget them."""


class TakenChanges(Protocol):
    """The changes of a table at one moment."""

    def contents(self) -> list[Any]:
        """Return all values in it."""

    def size(self) -> int:
        """Return the number of changes."""

    def group(self, start: int, stop: int, group_of: GroupOf, deltas: dict[KeyGroup, Any]) -> None:
        """Add some of the changes, from and up to a position, to the deltas of their key groups."""


class PagedTable(Table, Protocol):
    """A table over rows. Its changes can be put aside when memory is short, and are then drained by key group."""

    #: Whether the changes of an epoch stay in memory until it ends, and are drained all at once.
    keeps_changes: ClassVar[bool]

    def refresh(self) -> None:
        """Look again at what the database holds, which was brought to another version."""

    def prefetch(self, keys: set[Any]) -> None:
        """Fetch what is held for keys of records that are about to come."""

    def put_aside(self) -> None:
        """Write the changes of the running epoch to rows of their own and keep nothing in memory."""

    def drain_group(self, group: KeyGroup) -> Any | None:
        """Return the changes of a key group, all of which were put aside; None if there are none."""

    def weight(self) -> int:
        """Estimate how many bytes of memory the table takes."""


class Paged:
    """The answers of most tables over rows."""

    __slots__ = ()

    keeps_changes: ClassVar[bool] = False

    def refresh(self) -> None:
        """Nothing of the database is remembered between epochs."""

    def prefetch(self, keys: set[Any]) -> None:
        """Entries are fetched one by one."""


@dataclass(frozen=True)
class DeclaredTypes:
    """The types that values of a table are checked against."""

    value: TypeInformation | None
    map_key: TypeInformation | None
    stamped: bool  #: values stand beside the time of their last access


@dataclass(frozen=True)
class Conversion:
    """How the entries of a table are brought from the types of their files to those declared now."""

    values: Callable[[list[Any], list[Any]], list[Any]]  #: of values and the entries that they belong to
    map_keys: Callable[[list[Any], list[Any]], list[Any]]
    marks: bool  #: whether converted entries must be saved again


class ReturnedShape(Protocol):
    """Checks what a user's function returned for a key, and raises an error that names the state and the key."""

    def elements(self, changed: Any) -> list[Any]:
        """Return a list or tuple as a list."""

    def fitting(self, value: Any) -> Any:
        """Return a value in its plain form, if it is of the declared type."""

    def map_key(self, name: Any) -> Any:
        """Return a key of a map, if it is of the declared type."""

    def refusal(self, found: Any, expected: str) -> StateError:
        """Return the error that says what was found instead of what was expected."""


class TableKind(Protocol[T, D]):
    """One kind of state. ``T`` is its table in memory, ``D`` its delta."""

    name: str  #: as files call it
    spread: str | None = None  #: the column that tells the rows of one entry apart; None: an entry is one row
    has_values: bool = True  #: a row has a value
    of_windows: bool = False  #: every entry belongs to a window
    ages: bool = False  #: values may have a time to live, and are then stamped
    has_map_keys: bool = False  #: values stand under keys of a declared type within an entry
    new_columns: tuple[str, ...] = ("key", "value")  #: what a row has from which a new state is made

    # --- tables ------------------------------------------------------------------------------------------------------

    def make(self, namespaced: bool) -> T:
        """Return an empty table in memory."""
        raise NotImplementedError

    def make_paged(self, place: TablePlace) -> PagedTable | None:
        """Return a table over rows; None if tables of this kind are in memory with every backend."""
        return None

    # --- files -------------------------------------------------------------------------------------------------------

    def to_plain(self, delta: D) -> Any:
        """Return a delta as lists and tuples only: what is pickled where no type is declared."""
        return list(delta)  # type: ignore[call-overload]

    def from_plain(self, plain: Any) -> D:
        """Return the delta that ``to_plain`` made."""
        raise NotImplementedError

    def write(self, types: SectionTypes, delta: D, parts: Parts) -> None:
        """Append the columns of a delta."""
        raise NotImplementedError

    def read(self, types: SectionTypes, cursor: Cursor) -> D:
        """Return the delta that ``write`` wrote."""
        raise NotImplementedError

    def part(self, delta: D, wanted: Wanted) -> tuple[D, bool]:
        """Return what a delta says about wanted entries, and whether that is settled: older deltas cannot matter."""
        raise StateError(f"Flott cannot look up single keys in a table of kind {self.name!r}.")

    def contents(self, delta: D) -> list[Any] | None:
        """Return all values in a delta whose containers are its own; None: they are those of the table."""
        return None

    # --- schema ------------------------------------------------------------------------------------------------------

    def conform(self, table: T, delta: D, types: DeclaredTypes) -> D:
        """Return changes brought to the declared types, in the table as well; raise ``NotOfItsType``."""
        return delta

    def walk(self, table: T, cursor: Any, count: int) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the next so many entries with what they hold, and where to go on: None to begin, and at the end.

        Fewer come if some are no more. The table may change between two calls.
        """
        return [], None

    def key_of(self, table: T, entry: Any) -> Any:
        """Return what a grouping of the table takes, of an entry that ``walk`` gave."""
        return entry

    def convert(self, table: T, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        """Convert what some entries hold."""
        return None

    def converted(self, table: T) -> None:
        """Save everything again: all entries were converted."""
        return None

    # --- time to live ------------------------------------------------------------------------------------------------

    def drop_expired(self, delta: D, deadline: int, *, detached: bool) -> D:
        """Return a dumped delta without what is stamped at the deadline or before.

        ``detached``: it is for a savepoint, from which no copy of the state in memory goes on.
        """
        return delta

    def remove_expired(self, table: T, entry: Any, held: Any, deadline: int) -> None:
        """Remove what is stamped at the deadline or before from what an entry holds."""
        return None

    def move(self, source: T, target: T, entry: Any, held: Any, convert: Callable[[Any], tuple[Any, ...]]) -> None:
        """Move an entry to another table. ``convert`` gives the converted value in a tuple, () if it has expired."""
        return None

    def content(self, held: Any, is_visible: Callable[[Any], bool] | None = None) -> Any:
        """Return what an entry of a stamped table holds, without stamps, as far as it is visible."""
        return held

    def stamped(self, content: Any, before: Any) -> Any:
        """Return content with the stamps of what was held before; new items have the latest of these."""
        return content

    # --- entries, and rows of a table for users ----------------------------------------------------------------------

    def entries(self, table: T) -> Iterator[Entry]:
        """Return what a table holds."""
        raise NotImplementedError

    def taken(self, held: Any) -> Any:
        """Return what an entry holds as an object that stays as it is when the entry is changed or removed."""
        return held

    def release(self, table: T) -> Iterator[Entry]:
        """Remove all entries, and return them."""
        raise NotImplementedError

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        """Return the rows of an entry: what is in the spread column, if there is one, then the value."""
        return ((held,),)

    def unite(self, held: Any, other: Any) -> Any:
        """Return what two entries hold that a user sees as one."""
        return other

    def transform(self, table: T, change: Callable[[Any, Any, Any], Any]) -> None:
        """Replace what entries hold by what a function of key, namespace and that returns; None removes an entry."""
        raise StateError(f"Flott cannot transform the entries of a table of kind {self.name!r}.")

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        """Return what a user's function returned, in the form in which it is held; None: nothing."""
        return None if changed is None else shape.fitting(changed)

    def spread_new(self, key: Any, held: Any) -> Iterable[tuple[Any, Any]]:
        """Return the pairs of map key (None without one) and value that a user holds for a key of a new state."""
        return ((None, held),)

    def fill(self, table: T, key: Any, map_key: Any, value: Any) -> None:
        """Put a row of a new state into a table."""
        raise StateError(f"Flott cannot make a new state of kind {self.name!r}.")


class EntryTable(Table, Protocol):
    """A table with a dict of entries: a dict, or one that fetches what it does not hold."""

    entries: dict[Any, Any]


E = TypeVar("E", bound=EntryTable)


class EntryKind(TableKind[E, D], Protocol[E, D]):
    """A kind whose tables have a dict of entries."""

    def remove(self, table: E, entry: Any) -> None:
        """Remove an entry that is there."""
        raise StateError(f"Flott cannot remove single entries of a table of kind {self.name!r}.")

    def walk(self, table: E, cursor: Any, count: int) -> tuple[list[tuple[Any, Any]], Any]:
        if (own := getattr(table, "walk", None)) is not None:  # a table that does not hold all its entries in memory
            return own(cursor, count)  # type: ignore[no-any-return]
        entries = table.entries
        remaining = iter(list(entries)) if cursor is None else cursor
        found = list(islice(remaining, count))
        held = [(entry, entries[entry]) for entry in found if entry in entries]
        return held, remaining if len(found) == count else None

    def entries(self, table: E) -> Iterator[Entry]:
        for entry, held in table.entries.items():
            key, namespace = entry if table.namespaced else (entry, None)
            yield key, namespace, held

    def release(self, table: E) -> Iterator[Entry]:
        for entry, held in list(table.entries.items()):
            key, namespace = entry if table.namespaced else (entry, None)
            taken = self.taken(held)
            self.remove(table, entry)
            yield key, namespace, taken

    def transform(self, table: E, change: Callable[[Any, Any, Any], Any]) -> None:
        for entry, held in list(table.entries.items()):
            key, namespace = entry if table.namespaced else (entry, None)
            put_or_drop(table.entries, entry, change(key, namespace, held))


def put_or_drop(entries: dict[Any, Any], entry: Any, held: Any) -> None:
    """Put what an entry holds; None deletes the entry."""
    if held is None:
        del entries[entry]
    else:
        entries[entry] = held


def elements_of(key: Any, held: Any) -> Iterable[tuple[Any, Any]]:
    """Return the elements that a user holds for a key of a new state of lists."""
    if isinstance(held, str | bytes | Mapping):
        raise StateError(f"A dict of list states has a list for every key, found {held!r} for {key!r}.")
    return ((None, item) for item in held) if isinstance(held, Iterable) else ((None, held),)
