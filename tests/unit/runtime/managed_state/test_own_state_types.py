"""Types of the state that operators keep by themselves: panes, lists in panes, timelines, values; on both backends."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row
from flott.errors import StateMigrationError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.managed_state.key_groups import key_group_of
from flott.runtime.managed_state.kinds.lists import ListTable
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.storage import PosixStorage

GROUPS = 16
KEYS = [f"key {number}" for number in range(40)]
EARLY, LATE = (0, 10), (10, 20)
NAME = "_own"


@dataclasses.dataclass
class Order:
    item: str
    count: int


def in_memory(groups: range, folder: Path) -> KeyedState:
    return KeyedState("keeper", GROUPS, groups)


def in_rocksdb(groups: range, folder: Path) -> KeyedState:
    from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
    from flott.runtime.managed_state.backends.rocksdb.store import Budget

    return RocksKeyedState("keeper", GROUPS, groups, folder, Budget(1 << 20))


needs_rocksdb = pytest.mark.skipif(importlib.util.find_spec("rocksdict") is None, reason="needs rocksdict")


@pytest.fixture(params=[in_memory, pytest.param(in_rocksdb, marks=needs_rocksdb)])
def backend(request: pytest.FixtureRequest) -> Callable[[range, Path], KeyedState]:
    return request.param  # type: ignore[no-any-return]


# --- the kinds of tables, each with a way to put a value for a key and to see all -------------------------------------


def pane_table(state: KeyedState) -> PaneTable:
    return state.pane_table(NAME)


def list_pane_table(state: KeyedState) -> PaneTable:
    return state.list_pane_table(NAME)


def timeline_table(state: KeyedState) -> TimelineTable:
    return state.timeline_table(NAME)


def value_table(state: KeyedState) -> ValueTable:
    return state.value_table(NAME)


def list_table(state: KeyedState) -> ListTable:
    return state.list_table(NAME, namespaced=True)


TABLES = [pane_table, list_pane_table, timeline_table, value_table, list_table]


def put(table: Any, key: str, value: Any) -> None:
    match table:
        case ListPaneTable():
            for pane in (EARLY, LATE):
                held, marks = table.open(pane)
                marks.setdefault(key, len(held.get(key, ())))
                held.setdefault(key, []).append(value)
        case PaneTable():
            for pane in (EARLY, LATE):
                held, marks = table.open(pane)
                held[key] = value
                marks[key] = 0
        case TimelineTable():
            table.add([key], [5], [value])
        case ValueTable():
            table.entries[key] = value
            table.changed[key] = None
        case ListTable():
            table.append((key, EARLY), [value])


def held_by(table: Any) -> list[tuple[str, Any]]:
    """All values of all keys, the last one of each key last."""
    match table:
        case ListPaneTable():
            return [(key, one) for held in table.panes.values() for key, items in held.items() for one in items]
        case PaneTable():
            return [(key, value) for held in table.panes.values() for key, value in held.items()]
        case TimelineTable():
            return [(key, value) for key, (_, values) in table.entries.items() for value in values]
        case ListTable():
            return [(key, one) for (key, _), items in table.entries.items() for one in items]
    return list(table.entries.items())


class Life:
    """An operator subtask with one state, epoch by epoch."""

    def __init__(self, backend: Callable[[range, Path], KeyedState], ask: Callable[[KeyedState], Any], folder: Path):
        self.backend, self.ask, self.folder = backend, ask, folder
        self.storage = PosixStorage(str(folder), sync=False)
        self.files = 0
        self.held: list[tuple[str, Any]] = []  #: what was there when the last epoch began

    def epoch(
        self,
        declared: TypeInformation | None,
        sequence: FileSequence,
        values: dict[str, Any] | None = None,
        *,
        groups: range = range(GROUPS),
        fails: bool = False,
        state: KeyedState | None = None,
    ) -> tuple[FileSequence, dict[str, Any]]:
        """Restores the sequence in a new process, puts values, saves; what was there before the values were put."""
        self.files += 1
        folder = self.folder / f"database {groups.start} of {self.files if state is None else 'state'}"
        state = state or self.backend(groups, folder)
        try:
            table = self.ask(state)
            state.schemas.declare((NAME,), StateTypes(declared, own="what it remembers"))
            state.bring_to(sequence, self.storage)
            self.held = held_by(table)
            before = dict(self.held)
            for key, value in (values or {}).items():
                if key_group_of(key, GROUPS) in groups:
                    put(table, key, value)
            if not fails:
                sequence = state.save(sequence, self.storage, f"file {self.files}")
            return sequence, before
        finally:
            state.close()

    def compact(self, sequence: FileSequence, *, whole: bool = True) -> FileSequence:
        self.files += 1
        return (compact(CompactionOrder(sequence, (0, GROUPS), f"file {self.files}", whole), self.storage),)

    def types(self, sequence: FileSequence) -> list[str | None]:
        found = []
        for file in sequence:
            with open_state_file(self.storage, file.name) as reader:
                found += [table.value_type and table.value_type["type"] for table in reader.tables]
        return found


@pytest.fixture(params=TABLES)
def life(request: pytest.FixtureRequest, backend: Any, tmp_path: Path) -> Life:
    return Life(backend, request.param, tmp_path)


ROWS = Types.ROW_NAMED(["item", "count"], [Types.STRING(), Types.INT()])
WIDER_ROWS = Types.ROW_NAMED(["count", "item", "gift"], [Types.DOUBLE(), Types.STRING(), Types.BOOLEAN()])
HELD = {key: Row(item=key, count=7) for key in KEYS}
CONVERTED = {key: Row(count=7.0, item=key, gift=None) for key in KEYS}


def test_values_are_converted_before_the_first_record_and_stay_so(life: Life) -> None:
    first, _ = life.epoch(ROWS, (), dict(list(HELD.items())[:25]))
    first, _ = life.epoch(ROWS, first, dict(list(HELD.items())[20:]))
    sequence, before = life.epoch(WIDER_ROWS, first)
    assert before == CONVERTED
    assert all(type(row.count) is float and row._fields == ("count", "item", "gift") for _, row in life.held)
    new = {"key 3": Row(count=1.0, item="new", gift=True)}
    count = len(life.held)
    sequence, before = life.epoch(WIDER_ROWS, sequence, new)
    assert (before, len(life.held)) == (CONVERTED, count)
    for one in (sequence, life.compact(sequence), (*first, *life.compact(sequence[len(first) :], whole=False))):
        assert life.epoch(WIDER_ROWS, one)[1] == CONVERTED | new
    assert life.types(life.compact(sequence)) == ["row"]


@needs_rocksdb
@pytest.mark.parametrize("table", [pane_table, value_table])
def test_more_values_than_fit_into_memory_are_converted_once(table: Any, tmp_path: Path) -> None:
    life = Life(in_rocksdb, table, tmp_path)
    many = {f"key {number}": Row(item="x" * 50, count=number) for number in range(6000)}
    sequence, _ = life.epoch(ROWS, (), many)
    sequence, before = life.epoch(WIDER_ROWS, sequence, {"one more": Row(count=1.0, item="new", gift=True)})
    expected = {key: Row(count=float(row.count), item=row.item, gift=None) for key, row in many.items()}
    assert before == expected
    expected["one more"] = Row(count=1.0, item="new", gift=True)
    assert life.epoch(WIDER_ROWS, sequence)[1] == life.epoch(WIDER_ROWS, sequence[-1:])[1] == expected


def test_an_epoch_that_fails_after_the_conversion_converts_again(life: Life) -> None:
    sequence, _ = life.epoch(ROWS, (), HELD)
    state = life.backend(range(GROUPS), life.folder / "database")
    new = {"key 3": Row(count=1.0, item="new", gift=True)}
    for _ in range(2):
        assert life.epoch(WIDER_ROWS, sequence, new, state=state, fails=True) == (sequence, CONVERTED)
    sequence, before = life.epoch(WIDER_ROWS, sequence, state=state)
    assert before == CONVERTED
    assert life.epoch(WIDER_ROWS, sequence, state=state)[1] == life.epoch(WIDER_ROWS, sequence)[1] == CONVERTED


def test_a_table_of_two_types_in_two_parts_of_a_sequence_is_converted_where_it_must_be(life: Life) -> None:
    lower, upper = range(8), range(8, GROUPS)
    old = [life.epoch(ROWS, (), HELD, groups=groups)[0] for groups in (lower, upper)]
    new_lower, _ = life.epoch(WIDER_ROWS, old[0], groups=lower)
    sequence = (*(file.restricted(lower) for file in new_lower), *(file.restricted(upper) for file in old[1]))
    for one in (sequence, life.compact(sequence), life.compact(sequence, whole=False)):
        saved, before = life.epoch(WIDER_ROWS, one)
        assert before == CONVERTED
        assert life.epoch(WIDER_ROWS, life.compact(saved))[1] == CONVERTED


def test_an_incompatible_change_is_refused_by_operator_state_field_and_types(life: Life) -> None:
    sequence, _ = life.epoch(ROWS, (), HELD)
    other = Types.ROW_NAMED(["item", "count"], [Types.STRING(), Types.STRING()])
    with pytest.raises(StateMigrationError) as refusal:
        life.epoch(other, sequence)
    assert str(refusal.value) == (
        "State '_own' (what it remembers) of operator keeper cannot be restored: its field count was saved as int and"
        " is declared as string now: one does not become the other. Keep the former type, or give the operator another"
        " uid, and it begins without state."
    )
    assert life.epoch(ROWS, sequence)[1] == HELD  # the former program goes on


def test_values_are_not_held_against_their_type_and_come_back_as_they_were(life: Life) -> None:
    odd: dict[str, Any] = {"key 1": [1, 2], "key 2": (1, "two"), "key 3": 4, "key 4": {5}, "key 5": (1, 2)}
    pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
    sequence, _ = life.epoch(pairs, (), odd)
    assert life.epoch(pairs, life.compact(sequence))[1] == odd


def test_values_that_were_of_another_type_than_declared_are_not_converted_but_refused(life: Life) -> None:
    for misfit in (["not", "a row"], Row(other=1, names=2), Row("too short"), Row(item="x", count="y")):
        sequence, _ = life.epoch(ROWS, (), HELD | {"key 9": misfit})
        with pytest.raises(StateMigrationError, match=r"because of key .*key 9.* was saved as row\(item: string"):
            life.epoch(WIDER_ROWS, sequence)


def test_a_type_that_is_declared_later_is_held_against_what_is_there(life: Life) -> None:
    sequence, _ = life.epoch(None, (), HELD)
    assert life.epoch(ROWS, sequence)[1] == HELD
    sequence, _ = life.epoch(None, sequence, {"key 9": "text"})
    with pytest.raises(StateMigrationError, match=r"because of key .*key 9"):
        life.epoch(ROWS, sequence)


def test_a_declaration_that_is_taken_away_leaves_the_values(life: Life) -> None:
    sequence, _ = life.epoch(ROWS, (), HELD)
    sequence, before = life.epoch(None, sequence, {"key 0": Row(item="x", count=1)})
    assert before == HELD
    assert life.epoch(None, life.compact(sequence))[1] == HELD | {"key 0": Row(item="x", count=1)}


def test_a_class_that_was_changed_gets_its_defaults(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence, _ = life.epoch(Types.of(Order), (), {key: Order(key, 7) for key in KEYS})
    fields: list[Any] = [("item", str), ("count", float), ("gift", bool, False)]
    new: Any = dataclasses.make_dataclass("Order", fields, namespace={"__module__": __name__})
    monkeypatch.setattr(sys.modules[__name__], "Order", new)
    expected = {key: new(key, 7.0, False) for key in KEYS}
    sequence, before = life.epoch(Types.of(new), sequence)
    assert before == expected
    assert life.epoch(Types.of(new), life.compact(sequence))[1] == expected


@pytest.mark.parametrize("table", TABLES)
def test_a_class_nobody_can_import_is_restored_and_what_is_none_of_it_stays(table: Any, tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Local:
        name: str

    life = Life(in_memory, table, tmp_path)
    sequence, _ = life.epoch(Types.of(Local), (), {"key 1": Local("x"), "key 2": Local("y")})
    for one in (sequence, life.compact(sequence)):
        saved, before = life.epoch(Types.of(Local), one)
        assert before == {"key 1": Local("x"), "key 2": Local("y")}
        assert saved == one  # nothing was to be written
    groups = {key_group_of(key, GROUPS) for key in ("key 1", "key 2")}
    other = next(key for key in KEYS if key_group_of(key, GROUPS) not in groups)
    sequence, _ = life.epoch(Types.of(Local), sequence, {other: 5})
    assert life.epoch(Types.of(Local), sequence)[1] == {"key 1": Local("x"), "key 2": Local("y"), other: 5}
