"""One state of one operator, to be looked at: what it is, how large, and what it holds. Driver side.

    StateView
    ├── KeyedStateView      belongs to keys: value, list, map, timers, windows, records that wait to be joined
    └── OperatorStateView   belongs to subtasks: list, union list, broadcast map
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from flott.common._ids import KeyGroup
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.errors import StateError
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.table_kind import Entry
from flott.runtime.managed_state.schema.type_schema import describe
from flott.runtime.managed_state.ttl.time_to_live import state_name
from flott.runtime.operators.window.namespaces import namespace_of, window_of
from flott.snapshots.keys import groups_of_key, plain_form
from flott.snapshots.layouts import value_type_of
from flott.snapshots.scans import ItemsPart, ItemsScan, ScanPart, StateScan
from flott.snapshots.table_columns import CellType, Column, RowShape

if TYPE_CHECKING:
    import pyarrow

#: So many rows are looked at to recognise the types of values that were written without one.
SAMPLE_ROWS = 1000
#: A Spark task reads about so much.
TASK_BYTES = 32 * 1024 * 1024

_ANY: Any = object()


@dataclass(frozen=True)
class CellReader:
    """Reads one part of a state as rows of cells. A value: it travels to the tasks."""

    scan: StateScan | ItemsScan
    shape: RowShape

    def __call__(self, part: Any) -> Iterator[tuple[Any, ...]]:
        for rows in self.scan.row_batches(part):
            yield from self.shape.records(rows)


class StateView(ABC):
    """One state. Nothing is read before it is asked for, and never more than one key group is held in memory."""

    def __init__(self, header: TableHeader, scan: StateScan | ItemsScan, parts: Sequence[Any], names: tuple[str, ...]):
        self._header = header
        self._value_type = value_type_of(header)
        self._scan: Any = scan
        self._parts = parts
        self._names = names

    @property
    def name(self) -> str:
        """Return the name that the program gave it; one that begins with ``_`` is Flott's own."""
        return state_name(self._header.name)

    @property
    def table(self) -> str:
        """Return what files call it: its name, and an ending if it has a time to live."""
        return self._header.name

    @property
    @abstractmethod
    def kind(self) -> str:
        """Return what shape it has: value, list, map, timers, ..."""

    @property
    def key_type(self) -> str | None:
        """Return the declared type of its keys; None: not declared, so keys are pickled."""
        return None if self._header.key_type is None else describe(self._header.key_type)

    @property
    def value_type(self) -> str | None:
        """Return the declared type of a value, an element of a list, a value in a map; None: not declared."""
        return None if self._value_type is None else describe(self._value_type)

    @property
    def map_key_type(self) -> str | None:
        """Return the declared type of the keys in a map; None: not declared, or not a map."""
        return None if self._header.map_key_type is None else describe(self._header.map_key_type)

    @cached_property
    def size_bytes(self) -> int:
        """Return how much of the snapshot's files it takes, values that later files replace included."""
        return sum(self._scan.bytes_of(part) for part in self._parts)

    @abstractmethod
    def get(self, key: Any, default: Any = None) -> Any:
        """Return what is held for a key, or the default."""

    @abstractmethod
    def items(self) -> Iterator[Any]:
        """Return everything it holds."""

    # --- as a table --------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of its table. Values written without a type are judged by the first thousand rows."""
        return self._shape(None, None, None, False).columns

    def to_arrow(
        self,
        *,
        key_type: TypeHint | None = None,
        value_type: TypeHint | None = None,
        map_key_type: TypeHint | None = None,
        pickled: bool = False,
    ) -> pyarrow.Table:
        """Return all of it as an Arrow table, in memory. Needs ``pip install flott[arrow]``.

        Types are needed only where the program declared none, and then only to overrule what the first rows look like;
        ``Types.PICKLED_BYTE_ARRAY()`` shows values as text. ``pickled``: values shown as text come pickled, too.
        """
        from flott.snapshots.arrow import table_of

        shape = self._shape(key_type, value_type, map_key_type, pickled)
        return table_of(shape.columns, self._cell_batches(shape))

    def arrow_batches(
        self,
        *,
        key_type: TypeHint | None = None,
        value_type: TypeHint | None = None,
        map_key_type: TypeHint | None = None,
        pickled: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Return the same as :meth:`to_arrow`, one key group at a time."""
        from flott.snapshots.arrow import batches_of

        shape = self._shape(key_type, value_type, map_key_type, pickled)
        return batches_of(shape.columns, self._cell_batches(shape))

    def to_dataframe(
        self,
        spark: Any = None,
        *,
        key_type: TypeHint | None = None,
        value_type: TypeHint | None = None,
        map_key_type: TypeHint | None = None,
        pickled: bool = False,
    ) -> Any:
        """Return a PySpark DataFrame. The files are read by Spark tasks, in parallel, whenever the DataFrame is used.

        ``spark`` is the session to use; without one the active session, or a new one. Types as in :meth:`to_arrow`.
        """
        shape = self._shape(key_type, value_type, map_key_type, pickled)
        return _state_frame(spark, self._tasks(), CellReader(self._scan, shape), shape.columns)

    def _tasks(self) -> Sequence[Any]:
        """Return what is read by one Spark task each."""
        return self._parts

    def _cell_batches(self, shape: RowShape) -> Iterator[list[list[Any]]]:
        for part in self._parts:
            for rows in self._scan.row_batches(part):
                yield shape.cells(rows)

    def _shape(
        self, key_type: TypeHint | None, value_type: TypeHint | None, map_key_type: TypeHint | None, pickled: bool
    ) -> RowShape:
        chosen = {"key": key_type, "value": value_type, "map_key": map_key_type}
        declared = {
            "key": self._header.key_type or (self._header.map_key_type if self.kind == "broadcast" else None),
            "value": self._value_type,
            "map_key": self._header.map_key_type,
        }
        types: dict[str, CellType] = {}
        for name in self._names:
            if name in chosen:
                hint = chosen[name]
                found = CellType.declared(declared[name]) if hint is None else CellType.chosen(type_of(hint))
                types[name] = found or self._guess(name)
        return RowShape(self._label, self._names, types, pickled)

    def _guess(self, name: str) -> CellType:
        position = self._names.index(name)
        return CellType.guessed(row[position] for row in self._sample)

    @cached_property
    def _sample(self) -> list[tuple[Any, ...]]:
        rows = (row for part in self._parts for batch in self._scan.row_batches(part) for row in batch)
        return list(islice(rows, SAMPLE_ROWS))

    @property
    def _label(self) -> str:
        return f"State {self.name!r} of {self._scan.origin}"

    def __repr__(self) -> str:
        return f"<{self.kind} state {self.name!r} of {self._scan.origin}>"


class KeyedStateView(StateView):
    """State that belongs to keys."""

    _scan: StateScan
    _parts: Sequence[ScanPart]

    def __init__(self, scan: StateScan, parts: Sequence[ScanPart], max_parallelism: int):
        super().__init__(scan.header, scan, parts, scan.layout.names)
        self._max_parallelism = max_parallelism

    @property
    def kind(self) -> str:
        """value, list, map, timers, panes, list-panes, sessions (the contents of windows), or timelines (of joins)."""
        return self._scan.layout.kind_name

    @property
    def time_to_live_ms(self) -> int | None:
        """Return the time to live of its values, if any. Expired values are shown while files hold them."""
        return None if self._header.ttl is None else int(self._header.ttl["ms"])

    def get(self, key: Any, default: Any = None, *, window: Any = _ANY) -> Any:
        """Return what is held for a key, or the default.

        Of a list state a list, of a map state a dict, of timers their timestamps, of records that wait to be joined
        pairs of timestamp and record. Of windows a dict by window, or what one ``window`` holds: a ``TimeWindow``, or
        its start and end as a tuple.

        Reads the blocks of the key's group only, newest file first, and stops when older ones cannot matter.
        """
        schema = self._header.key_type
        plain, namespace = plain_form(schema, key), _ANY if window is _ANY else namespace_of(window)
        found: list[Entry] = []
        for group in groups_of_key(schema, key, self._max_parallelism):
            for part in self._parts:
                if part.holds(group):
                    any_window = namespace is _ANY
                    found += self._scan.find(part, group, plain, namespace, any_namespace=any_window)
            if found:
                break
        if not found:
            return default
        if self._scan.layout.windowed and namespace is _ANY:
            return self._by_window(found)
        return self.shown(found[0][2])

    def _by_window(self, entries: list[Entry]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _, namespace, held in entries:
            window, shown = _window(namespace), self.shown(held)
            found[window] = self._scan.layout.kind.unite(found[window], shown) if window in found else shown
        return found

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return every key, or pair of key and window, and what is held for it; key group by key group."""
        for _, entries in self.groups():
            for key, namespace, held in entries:
                yield self.key_of(key, namespace), self.shown(held)

    def keys(self) -> Iterator[Any]:
        """Return every key, once; key group by key group."""
        for _, entries in self.groups():
            yield from dict.fromkeys(entry[0] for entry in entries)

    @cached_property
    def keys_by_group(self) -> dict[KeyGroup, int]:
        """Return how many keys each key group holds; those without any are left out. Reads all of the state."""
        return {group: len({entry[0] for entry in entries}) for group, entries in self.groups()}

    @property
    def key_count(self) -> int:
        """Return how many keys there are. Reads all of the state."""
        return sum(self.keys_by_group.values())

    def is_empty(self) -> bool:
        """Return whether it holds nothing at all."""
        return next(self.groups(), None) is None

    def groups(self) -> Iterator[tuple[KeyGroup, list[Entry]]]:
        """Return the entries (key, namespace, what is held) of each key group that has any, ascending."""
        for part in self._parts:
            yield from self._scan.groups(part)

    def entries_of(self, group: KeyGroup) -> list[Entry]:
        """Return the entries of one key group."""
        return [entry for part in self._parts if part.holds(group) for entry in self._scan.group(part, group)]

    def files_of(self, group: KeyGroup) -> tuple[tuple[str, int], ...]:
        """Return which files a key group is read from: their absolute names and sizes. Equal files hold equal state."""
        return tuple(
            (self._scan.storage.location(file.name), file.size)
            for part in self._parts
            if part.holds(group)
            for file in part.sequence
            if group in file.within(range(*part.groups))
        )

    @property
    def max_parallelism(self) -> int:
        """Return how many key groups there are."""
        return self._max_parallelism

    def key_of(self, key: Any, namespace: Any) -> Any:
        """Return what names an entry: its key, or in windowed state the pair of key and window."""
        return (key, _window(namespace)) if self._scan.layout.windowed else key

    def shown(self, held: Any) -> Any:
        """Return what is held, without the times of last access that stand beside it."""
        return self._scan.layout.kind.content(held) if self._scan.layout.stamped else held

    def _tasks(self) -> Sequence[ScanPart]:
        return [piece for part in self._parts for piece in part.pieces(TASK_BYTES)]


class OperatorStateView(StateView):
    """State that belongs to subtasks."""

    _scan: ItemsScan
    _parts: Sequence[ItemsPart]

    def __init__(self, scan: ItemsScan, parts: Sequence[ItemsPart]):
        # A broadcast map is the same in every subtask: one of them says it all.
        super().__init__(scan.header, scan, parts[:1] if scan.is_broadcast else parts, scan.names)

    @property
    def kind(self) -> str:
        """split-list, union-list or broadcast."""
        return self._header.kind

    def items(self) -> Iterator[Any]:
        """Return every item of a list, in the order of the subtasks; every pair of a broadcast map."""
        for part in self._parts:
            yield from self._scan.items(part)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what a broadcast map holds for a key, or the default."""
        if not self._scan.is_broadcast:
            raise StateError(f"{self._label} is a list: read its items().")
        return dict(self.items()).get(key, default)

    @cached_property
    def item_count(self) -> int:
        """Return how many items, or pairs, there are."""
        return sum(1 for _ in self.items())


def _window(namespace: Any) -> Any:
    """Return a window, as programs know it; of a timer that ends a window, the window."""
    inner = namespace[0] if namespace.__class__ is tuple and len(namespace) == 1 else namespace
    return window_of(inner)


def _state_frame(session: Any, parts: Sequence[Any], read: CellReader, columns: tuple[Column, ...]) -> Any:
    """Return a DataFrame of what a reader gives for each part."""
    from flott.runtime.spark.state_frames import make_frame

    return make_frame(session, parts, read, [(column.name, column.type) for column in columns])
