"""Jobs that go on with changed types: what was saved is converted before the first record, or the job is refused."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.common.time import Duration
from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flott.errors import StateMigrationError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.operators.context import state_handle
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Cancel, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()


@dataclasses.dataclass
class Account:
    owner: str
    cents: int


@pytest.fixture
def becomes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Replaces the class Account by one with other fields, as a new version of the program does."""

    def replace(*fields: Any) -> type:
        new = dataclasses.make_dataclass("Account", fields, namespace={"__module__": __name__})
        monkeypatch.setattr(sys.modules[__name__], "Account", new)
        return new

    return replace


class Apply(KeyedProcessFunction[Any, Any, Any]):
    """Each record is a pair of key and a function of the state's handle, whose result is emitted."""

    def __init__(self, descriptor: StateDescriptor):
        self.descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        self.state = state_handle(runtime_context, self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[0], value[1](self.state)


def run(
    folder: Path,
    descriptor: StateDescriptor,
    script: list[Any],
    *,
    parallelism: int = 2,
    stop_after: int | None = None,
    key: Callable[[Any], Any] = lambda pair: pair[0],
    key_type: Any = None,
    **options: str,
) -> tuple[list[Any], Incarnation]:
    """The job with this descriptor on the script, of which earlier lives have read a part already."""
    ledger = Ledger(uuid4().hex)
    env = in_process(parallelism, restart_strategy__type="fixed-delay", **options)
    env.set_max_parallelism(16)
    stream = env.from_source(ScriptedSource({"all": script}), NO_TIME, "records").uid("records")
    keyed = stream.key_by(key, key_type)
    keyed.process(Apply(descriptor)).uid("apply").name("keeper").rebalance().sink_to(LedgerSink(ledger)).uid("sink")

    def stop(step: str, epoch: int) -> None:
        if step == "committed" and epoch == stop_after:
            raise Cancel

    life = live(env, folder / "job", on_step=stop)
    return sorted(ledger.records, key=repr), life


def put(value: Any) -> Callable[[Any], Any]:
    return lambda state: state.update(value)


def show(state: Any) -> Any:
    return state.value()


def versions(folder: Path) -> list[Any]:
    """The types of the state 'accounts' in the files of the last checkpoint, oldest file first."""
    storage = PosixStorage(str(folder / "job"))
    manifest = CheckpointStore(storage).completed()[-1]
    found = []
    for snapshot in manifest.operators.values():
        for subtask in snapshot.subtasks:
            for file in subtask.sequence or ():
                with open_state_file(storage, file.name) as reader:
                    found += [table.value_type for table in reader.tables if table.name.startswith("accounts")]
    return found


ACCOUNTS = "accounts"
KEYS = ["a", "b", "c", "d", "e"]


def test_a_job_goes_on_with_fields_of_a_row_added_widened_and_reordered(tmp_path: Path) -> None:
    script: list[Any] = [(key, put(Row(owner=key, cents=7))) for key in KEYS]
    script += [EndOfEpoch(), *((key, show) for key in KEYS), EndOfEpoch(), ("a", show)]
    old = Types.ROW_NAMED(["owner", "cents"], [Types.STRING(), Types.INT()])
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, old), script, stop_after=1)
    new = Types.ROW_NAMED(["cents", "owner", "vip"], [Types.DOUBLE(), Types.STRING(), Types.BOOLEAN()])

    found, life = run(tmp_path, ValueStateDescriptor(ACCOUNTS, new), script, parallelism=3)

    assert life.status is JobStatus.FINISHED, life.failure
    expected = [(key, Row(cents=7.0, owner=key, vip=None)) for key in [*KEYS, "a"]]
    assert found == sorted(expected, key=repr)
    assert all(type(row.cents) is float for _, row in found)


def accounts_saved(folder: Path) -> list[Any]:
    """A script whose first epoch, which is run, saves an account for each key; the rest shows them."""
    script: list[Any] = [(key, put(Row(owner=key, cents=150))) for key in KEYS]  # Accounts, when they are saved
    script += [EndOfEpoch(), *((key, show) for key in KEYS)]
    run(folder, ValueStateDescriptor(ACCOUNTS, Account), script, stop_after=1)
    return script


def test_a_dataclass_that_was_changed_is_restored_with_its_defaults(
    tmp_path: Path, becomes: Callable[..., Any]
) -> None:
    script = accounts_saved(tmp_path)
    new = becomes(("cents", float), ("currency", str, "EUR"))  # without an owner

    found, life = run(tmp_path, ValueStateDescriptor(ACCOUNTS, new), script)

    assert life.status is JobStatus.FINISHED, life.failure
    assert found == [(key, new(150.0, "EUR")) for key in KEYS]
    assert all(type(account.cents) is float for _, account in found)


def test_a_migration_function_makes_the_new_values(tmp_path: Path, becomes: Callable[..., Any]) -> None:
    script = accounts_saved(tmp_path)
    new = becomes(("owner", str), ("euros", float))
    descriptor = ValueStateDescriptor(ACCOUNTS, new)
    descriptor.set_migration(lambda text: 1 / 0, from_type=Types.STRING())  # for another predecessor
    descriptor.set_migration(lambda account: new(account.owner, account.cents / 100))

    found, life = run(tmp_path, descriptor, script)

    assert life.status is JobStatus.FINISHED, life.failure
    assert found == [(key, new(key, 1.5)) for key in KEYS]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_what_cannot_be_restored_is_refused_before_the_first_record(
    tmp_path: Path, becomes: Callable[..., Any], parallelism: int
) -> None:
    script = accounts_saved(tmp_path)
    before = versions(tmp_path)
    new = becomes(("owner", int), ("cents", int))

    found, life = run(
        tmp_path,
        ValueStateDescriptor(ACCOUNTS, new),
        script,
        parallelism=parallelism,
        restart_strategy__fixed_delay__attempts="5",
    )

    assert life.status is JobStatus.FAILED
    assert life.history.restarts == []  # trying again changes nothing
    assert isinstance(life.failure, StateMigrationError)
    message = str(life.failure)
    assert "State 'accounts' of operator 'keeper'" in message or "State 'accounts' of operator keeper" in message
    assert "its field owner was saved as string and is declared as big-int now" in message
    assert "set_migration()" in message
    assert found == []
    assert versions(tmp_path) == before  # nothing was published


def test_after_a_refusal_the_former_program_goes_on(tmp_path: Path) -> None:
    script: list[Any] = [("a", put(1)), EndOfEpoch(), ("a", show)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.LONG()), script, stop_after=1)
    assert run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.STRING()), script)[1].status is JobStatus.FAILED
    assert run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.LONG()), script)[0] == [("a", 1)]


def test_everything_is_written_once_in_its_new_form(tmp_path: Path) -> None:
    script: list[Any] = [(key, put(1)) for key in KEYS]
    script += [EndOfEpoch(), ("a", show), EndOfEpoch(), ("a", put(2.0)), EndOfEpoch(), *((key, show) for key in KEYS)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.INT()), script, parallelism=1, stop_after=1)
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.DOUBLE()), script, parallelism=1, stop_after=3)
    assert [one["type"] for one in versions(tmp_path)] == ["int", "double", "double"]

    found, _ = run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.DOUBLE()), script, parallelism=3)

    assert found == [("a", 2.0), *((key, 1.0) for key in KEYS[1:])]
    assert all(type(value) is float for _, value in found)


def test_an_epoch_that_fails_after_the_conversion_converts_again(tmp_path: Path) -> None:
    script: list[Any] = [(key, put(1)) for key in KEYS]
    script += [EndOfEpoch(), Abort(2), *((key, show) for key in KEYS)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.INT()), script, stop_after=1)

    found, life = run(
        tmp_path,
        ValueStateDescriptor(ACCOUNTS, Types.DOUBLE()),
        script,
        restart_strategy__fixed_delay__attempts="5",
    )

    assert len(life.history.restarts) == 2
    assert [(key, type(value)) for key, value in found] == [(key, float) for key in KEYS]


def test_lists_and_maps_are_converted_element_by_element(tmp_path: Path) -> None:
    lists: list[Any] = [("a", lambda state: state.add_all([1, 2])), ("b", lambda state: state.add(3)), EndOfEpoch()]
    lists += [("a", lambda state: state.add(4)), EndOfEpoch(), ("a", lambda state: list(state.get()))]
    old, new = ListStateDescriptor(ACCOUNTS, Types.INT()), ListStateDescriptor(ACCOUNTS, Types.DOUBLE())
    run(tmp_path / "lists", old, lists, stop_after=2)
    found, life = run(tmp_path / "lists", new, lists)
    assert repr(found) == "[('a', [1.0, 2.0, 4.0])]", life.failure

    maps: list[Any] = [("a", lambda state: state.put_all({2: "x", 1: "yy"})), EndOfEpoch()]
    maps += [("a", lambda state: list(state.items())), EndOfEpoch(), ("a", lambda state: list(state.items()))]
    before = MapStateDescriptor(ACCOUNTS, Types.INT(), Types.STRING())
    after = MapStateDescriptor(ACCOUNTS, Types.BIG_DEC(), Types.INT())
    after.set_migration(len)
    run(tmp_path / "maps", before, maps, stop_after=1)
    found, life = run(tmp_path / "maps", after, maps)
    assert repr(found) == repr([("a", [(Decimal(2), 1), (Decimal(1), 2)])] * 2), life.failure


def test_a_state_whose_time_to_live_and_type_change_at_once(tmp_path: Path) -> None:
    script: list[Any] = [(key, put(1)) for key in KEYS]
    script += [EndOfEpoch(), *((key, show) for key in KEYS), EndOfEpoch(), *((key, show) for key in KEYS)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.INT()), script, stop_after=1)
    ageing = ValueStateDescriptor(ACCOUNTS, Types.DOUBLE())
    ageing.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_days(1)).build())

    found, life = run(tmp_path, ageing, script, stop_after=2)
    assert repr(found) == repr([(key, 1.0) for key in KEYS]), life.failure

    found, life = run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.STRING()), script)
    assert "was saved as double and is declared as string" in str(life.failure)


def test_declaring_a_type_later_checks_what_is_there(tmp_path: Path) -> None:
    script: list[Any] = [("a", put(1)), ("b", put("x")), EndOfEpoch(), ("a", show)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS), script, stop_after=1)

    _, life = run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.LONG()), script)

    assert life.status is JobStatus.FAILED
    assert "cannot be restored, because of key 'b'" in str(life.failure)
    assert "found 'x' of type str, declared Long" in str(life.failure)
    found, _ = run(tmp_path, ValueStateDescriptor(ACCOUNTS), script)
    assert found == [("a", 1)]


def test_a_migration_that_raises_is_told_with_the_value(tmp_path: Path) -> None:
    script: list[Any] = [("a", put("one")), EndOfEpoch(), ("a", show)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Types.STRING()), script, stop_after=1)
    descriptor = ValueStateDescriptor(ACCOUNTS, Types.LONG())
    descriptor.set_migration(int)

    _, life = run(tmp_path, descriptor, script)

    assert isinstance(life.failure, StateMigrationError)
    assert "its migration function raised ValueError" in str(life.failure)
    assert "for the saved value 'one'" in str(life.failure)


def test_keys_of_another_type_are_refused(tmp_path: Path) -> None:
    script: list[Any] = [(1, put(1)), EndOfEpoch(), (1, show)]
    descriptor = ValueStateDescriptor(ACCOUNTS, Types.LONG())
    run(tmp_path, descriptor, script, stop_after=1, key_type=Types.INT())

    _, life = run(tmp_path, descriptor, script, key=lambda pair: str(pair[0]), key_type=Types.STRING())
    assert "the type of its keys has changed; it was saved as int and is declared as string" in str(life.failure)

    found, _ = run(tmp_path, descriptor, script, key_type=Types.LONG())
    assert found == [(1, 1)]


class Before(TypedDict):
    a: int
    b: int


class After(TypedDict):
    a: int
    c: NotRequired[int]


def test_a_typed_dict_loses_and_gains_keys(tmp_path: Path) -> None:
    script: list[Any] = [("k", put({"a": 1, "b": 2})), EndOfEpoch(), ("k", show)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Before), script, stop_after=1)
    found, life = run(tmp_path, ValueStateDescriptor(ACCOUNTS, After), script)
    assert found == [("k", {"a": 1})], life.failure


def test_a_class_that_only_the_driver_has_can_be_kept_in_state(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    script: list[Any] = [("k", put(Local(1))), EndOfEpoch(), ("k", show), EndOfEpoch(), ("k", show)]
    run(tmp_path, ValueStateDescriptor(ACCOUNTS, Local), script, stop_after=1)
    found, life = run(tmp_path, ValueStateDescriptor(ACCOUNTS, Local), script)
    assert [(type(value).__qualname__, value.x) for _, value in found] == [(Local.__qualname__, 1)] * 2, life.failure
