"""Random sequences of checkpoints, compactions, pins, failures and crashes, against a model.

A state file holds the list of changes it stands for, and compaction appends lists. So what a checkpoint means can be
read from the disk and compared with what it meant when it was made, whatever was compacted and deleted since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from flott.errors import StorageError
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, OperatorSnapshot, SubtaskSnapshot
from flott.runtime.checkpoint.pins import Pin, read_pins, write_pin
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmaster.compactor import Compaction
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Faults, UnreliableStorage

OPERATOR = OperatorId("0123456789abcdef" * 2)
RULES = CompactionRules(
    fan_in=3, rewrite_factor=3, rewrite_min_deltas=4, smallest_tier_bytes=4, max_orders=2, max_bytes=20
)


class Crash(BaseException):
    """The process dies."""


@dataclass
class Trouble:
    """When the next storage operation goes wrong, and how."""

    countdown: int | None = None
    dies: bool = True

    def strike(self) -> None:
        if self.countdown is not None:
            self.countdown -= 1
            if self.countdown < 0:
                self.countdown = None
                if self.dies:
                    raise Crash
                raise StorageError("refused")


@dataclass(frozen=True)
class TroubledStorage(PosixStorage):
    trouble: Trouble = field(default_factory=Trouble)

    def delete(self, name: str) -> None:
        self.trouble.strike()
        super().delete(name)

    def delete_folder(self, name: str) -> None:
        self.trouble.strike()
        super().delete_folder(name)

    def publish(self, name: str, data: bytes) -> None:
        self.trouble.strike()
        super().publish(name, data)


class Folder:
    """A runner that can only compact, and adds to the names it was given, as Spark's does."""

    def __init__(self, storage: PosixStorage):
        self.storage = storage

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        return [self._compact(order) for order in orders]

    def _compact(self, order: CompactionOrder) -> StateFile:
        self.storage.trouble.strike()  # type: ignore[attr-defined]
        changes = [change for file in order.sequence for change in json.loads(self.storage.read(file.name))]
        name = f"{order.target}-7"
        PosixStorage.write(self.storage, name, json.dumps(changes).encode())
        return StateFile(name, len(changes), order.whole)

    def stop(self, purpose: str) -> None:
        pass


class Later:
    """Work is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Future[Any]]] = []

    def start(self, work: Callable[[], Any], name: str) -> Future[Any]:
        self.waiting.append((work, Future()))
        return self.waiting[-1][1]

    def wait(self, future: Future[Any]) -> None:
        self.catch_up()

    def catch_up(self) -> None:
        while self.waiting:
            work, future = self.waiting.pop()
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)


class Job:
    """The epoch loop, as far as files are concerned: the same calls in the same order as the job master's."""

    def __init__(self, root: str, retain: int, run: int, compaction: type[Compaction] = Compaction):
        self.trouble = Trouble()
        self.storage = TroubledStorage(root, sync=False, trouble=self.trouble)
        self.store = CheckpointStore(self.storage)
        self.later = Later()
        self.retained = RetainedCheckpoints(self.store, retain)
        self.compaction = compaction(Folder(self.storage), self.retained, self.later, f"r{run}", RULES)  # type: ignore
        self.run, self.attempt = run, 0

    def recover(self) -> None:
        self.retained.open()
        self.tidy()

    def tidy(self) -> None:
        self.retained.subsume()
        self.retained.sweep(self.epoch - 1)

    @property
    def latest(self) -> Manifest | None:
        return self.retained.completed[-1] if self.retained.completed else None

    @property
    def epoch(self) -> int:
        return self.latest.checkpoint_id + 1 if self.latest is not None else 1

    def run_epoch(self, changed: list[bool], outcome: str) -> None:
        epoch = self.epoch
        self.attempt += 1
        if self.latest is not None:
            self.compaction.hold_up(self.latest.operators)
        self.store.write_input(EpochInput(epoch, 0, {}))
        sequences = list(self._sequences(epoch, changed))
        if outcome == "failed":
            return
        operators = self.compaction.adopt({OPERATOR: snapshot(sequences)})
        if outcome == "unpublished":
            return
        done = Manifest("j", "job", epoch, 0, 0, operators=operators)
        self.store.publish(done)
        self.retained.add(done)
        self.retained.subsume()
        self.compaction.completed(done)

    def _sequences(self, epoch: int, changed: list[bool]) -> Iterator[FileSequence]:
        last = self.latest.operators[OPERATOR].subtasks if self.latest is not None else ()
        for index in range(max(len(changed), len(last))):
            sequence = (last[index].sequence or ()) if index < len(last) else ()
            if index < len(changed) and changed[index]:
                name = f"state/{OPERATOR[:16]}-{index}-{epoch}-r{self.run}-{self.attempt}"
                PosixStorage.write(self.storage, name, json.dumps([f"{epoch}"]).encode())
                sequence = (*sequence, StateFile(name, 1, False))
            yield sequence

    def rescale(self) -> None:
        """The sequences of the last checkpoint become parts of others: nothing being compacted is in them now."""
        assert self.latest is not None
        done = self.latest
        self.store.write_input(EpochInput(self.epoch, 0, {}))
        subtasks = tuple(
            replace(subtask, sequence=tuple(replace(file, groups=(0, 9)) for file in subtask.sequence or ()))
            for subtask in done.operators[OPERATOR].subtasks
        )
        operators = {OPERATOR: replace(done.operators[OPERATOR], subtasks=subtasks)}
        operators = self.compaction.adopt(operators)
        done = replace(done, checkpoint_id=self.epoch, operators=operators)
        self.store.publish(done)
        self.retained.add(done)
        self.retained.subsume()
        self.compaction.completed(done)

    def pin(self, elsewhere: Path) -> None:
        self.attempt += 1
        if self.latest is not None and self.retained.registry.pin("savepoint", self.latest.files):
            savepoint = elsewhere / f"sp-{self.epoch}-{self.run}-{self.attempt}"
            write_pin(self.storage, Pin(savepoint.name, str(savepoint), self.latest.files))
            savepoint.mkdir()
            (savepoint / "_metadata").write_text(json.dumps(sorted(self.latest.files)))
            self.tidy()  # reads the pin
            self.retained.release("savepoint")


def snapshot(sequences: Sequence[FileSequence]) -> OperatorSnapshot:
    return OperatorSnapshot(
        "o", None, len(sequences), 128, tuple(SubtaskSnapshot(sequence=sequence) for sequence in sequences)
    )


def meaning(root: str, manifest: Manifest) -> list[list[str]]:
    """What a checkpoint says, by the files on the disk."""
    return [
        [change for file in subtask.sequence or () for change in json.loads(Path(root, file.name).read_text())]
        for subtask in manifest.operators[OPERATOR].subtasks
    ]


class Checks:
    """The model: what every checkpoint meant when it was published, and what lies around."""

    def __init__(self, root: str, elsewhere: Path):
        self.root, self.elsewhere = root, elsewhere
        self.meanings: dict[int, list[list[str]]] = {}

    def nothing_needed_is_gone(self) -> None:
        for done in CheckpointStore(PosixStorage(self.root)).completed():
            found = meaning(self.root, done)
            assert self.meanings.setdefault(done.checkpoint_id, found) == found
            before = self.meanings.get(done.checkpoint_id - 1, [])
            for index, changes in enumerate(before):
                assert found[index][: len(changes)] == changes
                assert found[index][len(changes) :] in ([], [str(done.checkpoint_id)])
        for savepoint in self.elsewhere.iterdir():
            for name in json.loads((savepoint / "_metadata").read_text()):
                assert Path(self.root, name).exists(), f"{savepoint} needs {name}"

    def nothing_unneeded_is_left(self, job: Job) -> None:
        needed = {file for done in job.retained.completed for file in done.files}
        for savepoint in self.elsewhere.iterdir():
            needed |= set(json.loads((savepoint / "_metadata").read_text()))
        found = {f"state/{name}" for name in job.store.state_files()}
        assert found <= {name for name in found if name in needed or job.retained.is_being_written(name)}
        kept = {done.checkpoint_id for done in job.retained.completed}
        assert {paths.id_of_checkpoint(n) for n in job.storage.list(".") if n.startswith("chk-")} <= kept
        assert {paths.epoch_of_input(n) for n in job.storage.list(paths.INPUTS)} <= {*kept, job.epoch}


_changes = st.lists(st.booleans(), min_size=1, max_size=3)
_epochs = st.tuples(
    st.just("epoch"), _changes, st.sampled_from(["completed", "completed", "completed", "failed", "unpublished"])
)
_moves = st.one_of(
    _epochs,
    _epochs,
    st.tuples(st.just("compact")),
    st.tuples(st.just("crash"), _changes, st.integers(0, 8)),
    st.tuples(st.just("refuse"), _changes, st.integers(0, 8)),
    st.tuples(st.sampled_from(["sweep", "restart", "rescale", "savepoint", "dispose"])),
)


def play(root: str, elsewhere: Path, moves: list[Any], retain: int, compaction: type[Compaction]) -> None:
    job, checks, lives = Job(root, retain, 0, compaction), Checks(root, elsewhere), 1
    for move in moves:
        match move:
            case ("epoch", changed, outcome):
                job.run_epoch(changed, outcome)
            case ("compact",):
                job.later.catch_up()
            case ("sweep",):
                job.tidy()
                checks.nothing_unneeded_is_left(job)
            case ("restart",):
                job, lives = Job(root, retain, lives, compaction), lives + 1
                job.recover()
            case ("rescale",) if job.latest is not None:
                job.rescale()
            case ("savepoint",):
                job.pin(elsewhere)
            case ("dispose",):
                for savepoint in list(elsewhere.iterdir())[:1]:
                    (savepoint / "_metadata").unlink()
                    savepoint.rmdir()
                    job.storage.delete(paths.pin(savepoint.name))
            case (("crash" | "refuse") as how, changed, countdown):
                job.trouble.dies, job.trouble.countdown = how == "crash", countdown
                try:
                    job.run_epoch(changed, "completed")
                    job.later.catch_up()
                    job.run_epoch(changed, "completed")
                    job.tidy()
                except Crash:
                    job, lives = Job(root, retain, lives, compaction), lives + 1
                    job.recover()
                except StorageError:
                    pass  # the epoch is repeated; a later sweep finds what is left
                job.trouble.countdown = None
        checks.nothing_needed_is_gone()
    # After a crash more checkpoints than wanted may be found; the next one subsumes them all.
    job.later.catch_up()
    for _ in range(2):
        job.run_epoch([True], "completed")
        checks.nothing_needed_is_gone()
    job.compaction.close()
    job.tidy()
    checks.nothing_needed_is_gone()
    checks.nothing_unneeded_is_left(job)
    assert len(job.retained.completed) <= retain


@settings(max_examples=150)
@given(moves=st.lists(_moves, max_size=25), retain=st.integers(1, 3))
def test_whatever_happens_a_checkpoint_keeps_its_files_and_a_sweep_leaves_nothing_else(tmp_path_factory, moves, retain):
    root, elsewhere = tmp_path_factory.mktemp("job"), tmp_path_factory.mktemp("savepoints")
    play(str(root), elsewhere, moves, retain, Compaction)


def test_half_a_savepoint_stays_pinned_until_it_can_be_removed(tmp_path):
    """The pin is all that says where to look for it."""
    home, savepoint = tmp_path / "job", tmp_path / "savepoints" / "savepoint-j-1"
    savepoint.mkdir(parents=True)
    (savepoint / f"{OPERATOR}-0.state").write_text("half")
    write_pin(PosixStorage(str(home), sync=False), Pin("savepoint-j-1", str(savepoint), frozenset()))
    faults = Faults(lambda verb, name: verb == "delete")
    store = CheckpointStore(UnreliableStorage(str(home), sync=False, faults=faults))
    RetainedCheckpoints(store, 1).open()
    assert faults.refused == 1
    assert len(list(read_pins(store.storage))) == 1
    faults.fails = lambda verb, name: False
    RetainedCheckpoints(store, 1).open()
    assert list(read_pins(store.storage)) == []
    assert not savepoint.exists()


def test_a_pin_is_kept_while_the_place_of_its_savepoint_is_out_of_reach(tmp_path):
    storage = PosixStorage(str(tmp_path), sync=False)
    storage.write("state/a", b"x")
    write_pin(storage, Pin("s", str(tmp_path / "not mounted" / "s"), frozenset(["state/a"])))
    retained = RetainedCheckpoints(CheckpointStore(storage), 1)
    retained.open()
    retained.sweep(10**6)
    assert retained.registry.is_referenced("state/a")
    assert storage.exists("state/a")


# --- the test itself: each of these breaks one promise, and is caught ------------------------------------------------


class LetsGoTooEarly(Compaction):
    """The result of a compaction is nobody's between its end and the checkpoint that adopts it."""

    def adopt(self, operators: Any) -> Any:
        adopted = super().adopt(operators)
        if self._job is not None and self._job.future.done():
            self._retained.release(self._job.owner)
        return adopted


class NeverLetsGo(Compaction):
    """What was compacted stays for ever."""

    def _settle(self, job: Any) -> None:
        self._job = None


class WritesUnguarded(Compaction):
    """A sweep takes what a compaction has written under a name of its own."""

    def _is_being_written(self, name: str) -> bool:
        return False


class Careless(Compaction):
    """The result of a compaction is put into a sequence that does not hold what was compacted."""

    def _adopt_operator(self, ident: Any, snapshot: Any, results: Any) -> Any:
        subtasks = [
            replace(
                subtask,
                sequence=(results[ident, i], *(subtask.sequence or ())[len(self._job.orders[ident, i].sequence) :]),  # type: ignore
            )
            if (ident, i) in results
            else subtask
            for i, subtask in enumerate(snapshot.subtasks)
        ]
        return replace(snapshot, subtasks=tuple(subtasks))


@pytest.mark.parametrize("mutant", [LetsGoTooEarly, NeverLetsGo, WritesUnguarded, Careless])
def test_a_broken_promise_would_be_noticed(mutant, tmp_path_factory):
    @settings(max_examples=300, database=None, derandomize=True, phases=[Phase.generate])
    @given(moves=st.lists(_moves, min_size=10, max_size=25), retain=st.integers(1, 3))
    def search(moves: list[Any], retain: int) -> None:
        root, elsewhere = tmp_path_factory.mktemp("job"), tmp_path_factory.mktemp("savepoints")
        play(str(root), elsewhere, moves, retain, mutant)

    with pytest.raises((AssertionError, FileNotFoundError, StorageError)):
        search()
