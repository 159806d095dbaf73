"""Operator state: whatever process runs a subtask, and with whatever parallelism, nothing is lost or doubled."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Types
from flott.common.time import Time
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig
from flott.errors import CorruptStateError, ProgramError, StateError, StorageError, TypeMismatchError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.operator.operator_handles import ReadOnlyBroadcastView, TaskOperatorStateStore
from flott.runtime.managed_state.operator.operator_shares import (
    Mode,
    OperatorStart,
    OperatorStateFile,
    StateShape,
    StateShare,
    deal_out,
)
from flott.runtime.managed_state.operator.operator_state import OperatorState
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage

OWN, ALL, RULES = ListStateDescriptor("own"), ListStateDescriptor("all"), MapStateDescriptor("rules")


class Worker:
    """A process with its copy of one subtask's state."""

    def __init__(self) -> None:
        self.state = OperatorState("sums (uid s)")
        store = TaskOperatorStateStore(self.state)
        self.own, self.all = store.get_list_state(OWN), store.get_union_list_state(ALL)
        self.rules = store.get_broadcast_state(RULES)
        self.read = ReadOnlyBroadcastView(self.state.named("rules", Mode.BROADCAST), "rules")

    def view(self) -> Any:
        assert list(self.rules.items()) == list(self.read.items())
        return list(self.own.get()), list(self.all.get()), list(self.rules.items())

    def do(self, operation: str, n: int) -> None:
        match operation:
            case "add":
                self.own.add(n)
            case "add_all":
                self.own.add_all([n, n + 1])
            case "replace":
                self.own.update(range(n))
            case "same":
                self.own.update(list(self.own.get()))
            case "clear":
                self.own.clear()
            case "unite":
                self.all.add(n)
            case "own_only":
                self.all.update([n])


def do_to_model(held: Any, operation: str, n: int) -> None:
    own, everyone, _ = held
    match operation:
        case "add":
            own.append(n)
        case "add_all":
            own += [n, n + 1]
        case "replace":
            own[:] = range(n)
        case "clear":
            own.clear()
        case "unite":
            everyone.append(n)
        case "own_only":
            everyone[:] = [n]


def rule(target: Any, operation: str, n: int) -> None:
    """The same change to a handle and to a dict: what a broadcast stream does in every subtask."""
    if operation == "put":
        target[n] = len(list(target)) * 10 + n
    elif operation == "remove" and n in target:
        del target[n]
    elif operation == "clear":
        target.clear()


operations = st.tuples(
    st.sampled_from(["add", "add_all", "replace", "same", "clear", "unite", "own_only"]), st.integers(0, 4)
)
epochs = st.tuples(
    st.sampled_from(["complete", "complete", "complete", "fail", "crash"]),
    st.lists(st.tuples(st.integers(0, 3), operations), max_size=5),  # which subtask does what
    st.lists(st.tuples(st.sampled_from(["put", "remove", "clear"]), st.integers(0, 3)), max_size=2),
    st.integers(0, 3),  # which worker runs the first subtask; the others follow
)
events = st.one_of(
    epochs, epochs, st.tuples(st.just("resume"), st.integers(1, 4))
)


class Job:
    """Subtasks that are run by four workers in turns, and the model of their state."""

    def __init__(self) -> None:
        self.storage: Any = MemoryStorage()
        self.epoch = 0
        self.files: list[OperatorStateFile | None] = [None, None]
        self.saved: list[Any] = [([], [], {}), ([], [], {})]  # what is in the files
        self.model = self.saved  # what the next epoch begins with
        self.workers: dict[tuple[int, int], Worker] = {}
        self.starts: tuple[OperatorStart, ...] | None = None

    def run(self, outcome: str, changes: Any, rules: Any, first_worker: int) -> None:
        self.epoch += 1
        starts = self.starts or deal_out(self.files, len(self.files))
        model, files = copy.deepcopy(self.model), []
        for subtask, start in enumerate(starts):
            worker = self.workers.setdefault((subtask, (subtask + first_worker) % 4), Worker())
            worker.state.bring_to(start, self.storage)
            own, everyone, known = model[subtask]
            assert worker.view() == (own, everyone, list(known.items()))
            for operation, n in rules:
                rule(worker.rules, operation, n)
                rule(known, operation, n)
            for who, change in changes:
                if who == subtask:
                    worker.do(*change)
                    do_to_model(model[subtask], *change)
            assert worker.view() == (own, everyone, list(known.items()))
            if outcome != "crash":
                files.append(worker.state.save(self.storage, f"{subtask}-{self.epoch}"))
        if outcome == "complete":
            self.files, self.saved, self.model, self.starts = files, model, model, None

    def resume(self, parallelism: int) -> None:
        """In processes that have never seen the job, with the parallelism it is given."""
        self.workers = {}
        self.starts = deal_out(self.files, parallelism, resuming=True)
        own = [item for held in self.saved for item in held[0]]
        everyone = [item for held in self.saved for item in held[1]]
        cuts = [len(own) * i // parallelism for i in range(parallelism + 1)]
        self.model = [
            (
                self.saved[i][0] if parallelism == len(self.saved) else own[cuts[i] : cuts[i + 1]],
                list(everyone),
                dict(self.saved[0][2]),
            )
            for i in range(parallelism)
        ]


@settings(max_examples=300)
@given(st.lists(events, max_size=14))
def test_state_is_what_the_completed_epochs_made_it(happenings: list[Any]) -> None:
    job = Job()
    for happening in happenings:
        if happening[0] == "resume":
            job.resume(happening[1])
        else:
            job.run(*happening)
    job.run("complete", [], [], 1)


# --- when it is written, and when it is read -------------------------------------------------------------------------


def at(file: OperatorStateFile | None) -> OperatorStart:
    return OperatorStart(True, file)


def test_nothing_is_written_in_an_epoch_that_changes_nothing() -> None:
    storage: Any = MemoryStorage()
    worker = Worker()
    assert worker.state.save(storage, "1") is None
    worker.own.add(7)
    file = worker.state.save(storage, "2")
    assert file == OperatorStateFile("2", len(storage.files["2"]), (StateShape("own", Mode.SPLIT, 1),))
    assert worker.state.save(storage, "3") is file
    worker.own.update([7])  # what snapshot_state() does whether or not there is news
    assert worker.state.save(storage, "4") is file
    worker.own.clear()
    assert worker.state.save(storage, "5") is None
    assert list(storage.files) == ["2"]


def test_a_worker_that_is_up_to_date_reads_nothing_and_one_that_is_not_reads_one_file() -> None:
    storage: Any = MemoryStorage()
    one, two = Worker(), Worker()
    one.rules.put("a", 1)
    file = one.state.save(storage, "1")
    assert not one.state.bring_to(at(file), storage)
    assert storage.reads == []
    assert two.state.bring_to(at(file), storage)
    assert storage.reads == ["1"]
    assert list(two.read.items()) == [("a", 1)]
    two.rules.put("a", 1)
    assert two.state.save(storage, "2") is file, "the same content again, in another worker"


def test_what_a_failed_attempt_did_is_forgotten_by_the_worker_that_did_it() -> None:
    storage: Any = MemoryStorage()
    worker = Worker()
    worker.own.add(1)
    file = worker.state.save(storage, "1")
    worker.own.add(2)
    worker.state.save(storage, "2-failed")
    assert worker.state.bring_to(at(file), storage)
    assert worker.view() == ([1], [], [])
    worker.own.add(3)  # and does not get as far as saving
    assert worker.state.bring_to(at(file), storage)
    assert worker.view() == ([1], [], [])


def test_a_state_that_could_not_be_written_or_read_has_no_version() -> None:
    storage: Any = MemoryStorage()
    worker = Worker()
    worker.own.add(1)
    file = worker.state.save(storage, "1")
    worker.own.add(2)
    storage.broken = True
    with pytest.raises(StorageError):
        worker.state.save(storage, "2")
    with pytest.raises(StorageError):
        worker.state.bring_to(at(file), storage)
    storage.broken = False
    assert worker.state.bring_to(at(file), storage)
    assert worker.view() == ([1], [], [])


def test_state_that_nobody_asks_for_any_more_is_kept() -> None:
    storage: Any = MemoryStorage()
    worker = Worker()
    worker.rules.put("a", 1)
    worker.own.add_all([1, 2, 3])
    files = [worker.state.save(storage, "1")]
    stranger = OperatorState("sums")
    stranger.bring_to(deal_out(files, 1)[0], storage)
    files = [stranger.save(storage, "2")]
    one, two = Worker(), Worker()
    for reader, start in zip((one, two), deal_out(files, 2), strict=True):
        reader.state.bring_to(start, storage)
    assert (one.view(), two.view()) == (([1], [], [("a", 1)]), ([2, 3], [], [("a", 1)]))


# --- dealing out -----------------------------------------------------------------------------------------------------


def file_of(name: str, **items: tuple[Mode, int]) -> OperatorStateFile:
    return OperatorStateFile(name, 1, tuple(StateShape(state, mode, n) for state, (mode, n) in items.items()))


def shares(starts: tuple[OperatorStart, ...]) -> list[list[tuple[str, int, int]]]:
    """What each begins with: shares of files, or all that is in its own."""
    return [
        [(share.file, share.start, share.stop) for share in start.shares]
        + [(start.file.name, 0, shape.items) for shape in (start.file.states if start.file is not None else ())]
        for start in starts
    ]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 6))
def test_lists_are_divided_evenly_and_in_order(sizes: list[int], parallelism: int) -> None:
    files = [file_of(str(i), s=(Mode.SPLIT, n)) if n else None for i, n in enumerate(sizes)]
    starts = deal_out(files, parallelism)
    items = [[(file, i) for file, start, stop in own for i in range(start, stop)] for own in shares(starts)]
    assert [item for own in items for item in own] == [(str(i), k) for i, n in enumerate(sizes) for k in range(n)]
    if parallelism != len(sizes):
        assert {len(own) for own in items} <= {sum(sizes) // parallelism, -(-sum(sizes) // parallelism)}
    else:
        assert [len(own) for own in items] == sizes, "without a change of parallelism everybody keeps what they had"


def test_a_union_comes_to_all_when_a_job_is_resumed_and_not_between_two_epochs() -> None:
    files = [file_of("a", s=(Mode.UNION, 2)), None, file_of("c", s=(Mode.UNION, 1))]
    everything = [("a", 0, 2), ("c", 0, 1)]
    assert shares(deal_out(files, 3, resuming=True)) == [everything] * 3
    assert shares(deal_out(files, 2, resuming=True)) == [everything] * 2
    assert deal_out(files, 3) == tuple(OperatorStart(True, file) for file in files)


def test_broadcast_state_is_taken_from_whoever_had_it() -> None:
    files = [file_of("a", r=(Mode.BROADCAST, 2)), file_of("b", r=(Mode.BROADCAST, 2))]
    assert shares(deal_out(files, 5)) == [[(name, 0, 2)] for name in "ababa"]
    assert shares(deal_out(files, 1)) == [[("a", 0, 2)]]
    assert shares(deal_out([None, files[0]], 3)) == [[("a", 0, 2)]] * 3


def test_a_job_that_is_resumed_as_it_was_goes_on_with_its_own_files() -> None:
    files = [file_of("a", s=(Mode.SPLIT, 2), r=(Mode.BROADCAST, 1)), None]
    assert deal_out(files, 2, resuming=True) == (OperatorStart(True, files[0]), OperatorStart(True, None))


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_name_means_one_kind_of_state() -> None:
    storage: Any = MemoryStorage()
    worker = Worker()
    store = TaskOperatorStateStore(worker.state)
    with pytest.raises(ProgramError, match=r"sums \(uid s\) asks for the broadcast .* but holds a split-list"):
        store.get_broadcast_state(MapStateDescriptor("own"))
    with pytest.raises(ProgramError, match="asks for the union-list state 'own', but holds a split-list state"):
        store.get_union_list_state(OWN)
    worker.own.add(1)
    file = worker.state.save(storage, "1")
    changed = OperatorState("sums")
    TaskOperatorStateStore(changed).get_union_list_state(OWN)
    with pytest.raises(StateError, match="has a union-list state 'own', but its checkpoint holds a split-list state"):
        changed.bring_to(at(file), storage)


def test_operator_state_does_not_expire_and_needs_the_right_descriptor() -> None:
    store = TaskOperatorStateStore(OperatorState("sums"))
    expiring = ListStateDescriptor("own")
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(ProgramError, match="'own' of operator sums asks for a time to live, which only keyed"):
        store.get_list_state(expiring)
    with pytest.raises(ProgramError, match="expected a ListStateDescriptor"):
        store.get_list_state(RULES)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="expected a MapStateDescriptor"):
        store.get_broadcast_state(OWN)  # type: ignore[arg-type]


def test_values_are_of_the_declared_type_from_the_moment_they_are_put() -> None:
    store = TaskOperatorStateStore(OperatorState("sums"))
    floats = store.get_list_state(ListStateDescriptor("floats", Types.DOUBLE()))
    floats.add(1)
    assert [type(value) for value in floats.get()] == [float]
    with pytest.raises(TypeMismatchError, match=r"State 'floats': .*found 'x'"):
        floats.update([2.0, "x"])
    assert list(floats.get()) == [1.0], "a list that was refused changes nothing"
    rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.INT()))
    with pytest.raises(TypeMismatchError, match=r"State 'rules': .*found 1"):
        rules.put(1, 1)
    with pytest.raises(TypeMismatchError, match=r"State 'rules': .*found 'one'"):
        rules.put_all({"a": 1, "b": "one"})
    assert rules.is_empty()


def test_an_object_that_cannot_be_saved_is_refused_by_the_name_of_its_state() -> None:
    worker = Worker()
    worker.rules.put("fine", 1)
    worker.own.add(lambda: None)
    with pytest.raises(StateError, match=r"State 'own' of operator sums \(uid s\) holds an object that cannot be"):
        worker.state.save(MemoryStorage(), "1")  # type: ignore[arg-type]


def test_damaged_files_and_files_of_another_kind_are_refused() -> None:
    storage: Any = MemoryStorage()
    worker = Worker()
    worker.own.add_all(range(5))
    file = worker.state.save(storage, "1")
    assert file is not None
    whole = storage.files["1"]
    for position in range(len(whole)):
        storage.files["1"] = whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
        with pytest.raises(StateError):
            Worker().state.bring_to(at(file), storage)
    storage.files["1"] = whole
    with pytest.raises(CorruptStateError, match="holds 5 items of state 'own', expected at least 6"):
        Worker().state.bring_to(OperatorStart(True, None, (StateShare("1", "own", 0, 6),)), storage)
    with pytest.raises(CorruptStateError, match="holds 0 items of state 'other', expected at least 1"):
        Worker().state.bring_to(OperatorStart(True, None, (StateShare("1", "other", 0, 1),)), storage)
    keyed = KeyedState("counter", 16, range(16))
    values = keyed.value_table("v")
    values.entries["k"] = 1
    values.changed["k"] = None
    keyed.save((), storage, "keyed")
    with pytest.raises(StateError, match="holds a 'value' state, which is not operator state"):
        Worker().state.bring_to(OperatorStart(True, OperatorStateFile("keyed", 1, ())), storage)


@pytest.mark.parametrize(
    "write",
    [
        lambda rules: rules.put("a", 1),
        lambda rules: rules.put_all({"a": 1}),
        lambda rules: rules.remove("a"),
        lambda rules: rules.clear(),
        lambda rules: rules.__setitem__("a", 1),
        lambda rules: rules.__delitem__("a"),
    ],
)
def test_a_read_only_state_says_so_when_it_is_written(write: Any) -> None:
    worker = Worker()
    worker.rules.put("a", 0)
    with pytest.raises(ProgramError, match=r"'rules' can only be read here: .* Change it in process_broadcast_element"):
        write(worker.read)
    assert worker.rules.get("a") == 0


def test_broadcast_state_reads_like_a_map() -> None:
    worker = Worker()
    assert worker.read.is_empty()
    worker.rules.put_all({"b": 2, "a": 1})
    worker.rules["c"] = 3
    for rules in (worker.rules, worker.read):
        assert (rules["a"], rules.get("b"), rules["x"], "a" in rules, rules.contains("x")) == (1, 2, None, True, False)
        assert (list(rules), list(rules.keys()), list(rules.values())) == ([*"bac"], [*"bac"], [2, 1, 3])
        assert not rules.is_empty()
    for key in worker.rules:
        del worker.rules[key]  # while iterating
    assert worker.read.is_empty()
