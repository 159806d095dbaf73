"""What may be deleted: never what a retained checkpoint needs, and in the end everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.errors import StorageError
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import InputPlan, Manifest, OperatorSnapshot, SubtaskSnapshot
from flott.runtime.checkpoint.retention import Discard, orphans, subsumed
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.state.keyed_state import Chain, StateFile
from flott.runtime.storage import LocalStorage

OPERATOR = OperatorId("0123456789abcdef" * 2)


def manifest(checkpoint_id: int, *chains: Sequence[str]) -> Manifest:
    subtasks = tuple(
        SubtaskSnapshot(chain=tuple(StateFile(name, 1, False) for name in chain)) for chain in chains
    )
    operator = OperatorSnapshot("o", None, len(subtasks), 128, subtasks)
    return Manifest("j", "job", checkpoint_id, 0, 0, operators={OPERATOR: operator})


def test_the_newest_checkpoints_stay_and_the_files_only_others_need_go():
    completed = [manifest(1, ["a", "b"]), manifest(2, ["a", "c"], ["x"]), manifest(3, ["d"], ["x"])]
    keep, discard = subsumed(completed, 2)
    assert keep == tuple(completed[1:])
    assert discard == Discard((1,), ("b",))
    keep, discard = subsumed(completed, 1)
    assert keep == (completed[2],)
    assert discard == Discard((1, 2), ("a", "b", "c"))


def test_nothing_goes_while_there_are_no_more_than_wanted():
    completed = [manifest(1, ["a"]), manifest(2, ["b"])]
    for retained in (2, 3, 100):
        assert subsumed(completed, retained) == (tuple(completed), Discard())
    assert subsumed([], 1) == ((), Discard())


@pytest.mark.parametrize("retained", [0, -1])
def test_the_last_checkpoint_stays_whatever_was_asked(retained):
    completed = [manifest(1, ["a"]), manifest(2, ["b"])]
    assert subsumed(completed, retained) == ((completed[1],), Discard((1,), ("a",)))


def name(epoch: int, attempt: str = "r1-0-7") -> str:
    return f"{OPERATOR[:16]}-3-{epoch}-{attempt}"


def test_orphans_are_files_of_past_epochs_that_nobody_refers_to():
    used, failed, running = name(1), name(2, "r1-1-9"), name(3)
    retained = [manifest(2, [f"state/{used}"])]
    assert orphans([used, failed, running, "notes.txt"], retained, 2) == (f"state/{failed}",)
    assert orphans([used, failed, running], retained, 3) == (f"state/{failed}", f"state/{running}")
    assert orphans([used], [], 1) == (f"state/{used}",)


# --- a job that completes, fails, crashes and sweeps, against a model -------------------------------------------------


class Crash(BaseException):
    """The process dies."""


class CrashingStorage(LocalStorage):
    """Dies, or refuses, at one of the next deletions."""

    countdown: list[int | None]
    dies: bool

    def delete(self, name: str) -> None:
        self._count()
        super().delete(name)

    def delete_folder(self, name: str) -> None:
        self._count()
        super().delete_folder(name)

    def _count(self) -> None:
        if self.countdown[0] is not None:
            self.countdown[0] -= 1
            if self.countdown[0] < 0:
                self.countdown[0] = None
                if self.dies:
                    raise Crash
                raise StorageError("refused")


class Job:
    """The epoch loop, as far as retention is concerned: the same calls in the same order as the JobMaster's."""

    def __init__(self, root: str, retain: int):
        self.storage = CrashingStorage(root, sync=False)
        object.__setattr__(self.storage, "countdown", [None])
        object.__setattr__(self.storage, "dies", True)
        self.store = CheckpointStore(self.storage)
        self.retain = retain
        self.completed: tuple[Manifest, ...] = ()
        self.attempt = 0

    def recover(self) -> None:
        self.completed = tuple(self.store.completed())
        self.sweep()

    @property
    def epoch(self) -> int:
        return self.completed[-1].checkpoint_id + 1 if self.completed else 1

    def run_epoch(self, subtasks: list[str], outcome: str) -> None:
        epoch = self.epoch
        self.attempt += 1
        self.store.write_plan(InputPlan(epoch, 0, {}))
        chains = list(self._chains(epoch, subtasks))
        if outcome == "failed":
            return
        done = manifest(epoch, *([file.name for file in chain] for chain in chains))
        self.store.publish(done)
        self.completed = (*self.completed, done)
        retained, discard = subsumed(self.completed, self.retain)
        self.store.discard(discard)
        self.completed = retained

    def _chains(self, epoch: int, subtasks: list[str]) -> Iterator[Chain]:
        last = self.completed[-1].operators[OPERATOR].subtasks if self.completed else ()
        for index, change in enumerate(subtasks):
            chain = (last[index].chain or ()) if index < len(last) else ()
            if change != "unchanged":
                file = f"state/{OPERATOR[:16]}-{index}-{epoch}-run-0-{self.attempt}"
                self.storage.write(file, b"x")
                kept = {"appended": chain, "merged": chain[:-2], "rewritten": ()}[change]
                chain = (*kept, StateFile(file, 1, False))
            yield chain

    def sweep(self) -> None:
        done = self.completed[-1].checkpoint_id if self.completed else 0
        self.store.discard(Discard(files=orphans(self.store.state_files(), self.completed, done + 1)))
        oldest = self.completed[0].checkpoint_id if self.completed else done + 1
        self.store.discard(Discard(checkpoints=tuple(self.store.stale_plans(oldest))))

    def check_nothing_needed_is_gone(self) -> None:
        for done in CheckpointStore(LocalStorage(self.storage.root)).completed():
            for file in done.files:
                assert self.storage.exists(file), f"checkpoint {done.checkpoint_id} refers to {file}"

    def check_nothing_unneeded_is_left(self) -> None:
        needed = {file.removeprefix("state/") for done in self.completed for file in done.files}
        assert set(self.store.state_files()) <= needed
        kept = {done.checkpoint_id for done in self.completed}
        assert {paths.id_of_checkpoint(n) for n in self.storage.list(".") if n.startswith("chk-")} <= kept
        plans = {paths.epoch_of_plan(n) for n in self.storage.list(paths.PLANS)}
        assert plans <= {*kept, self.epoch}


_change = st.sampled_from(["unchanged", "appended", "appended", "merged", "rewritten"])
_changes = st.lists(_change, min_size=1, max_size=3)
_moves = st.one_of(
    st.tuples(st.just("epoch"), _changes, st.sampled_from(["completed", "completed", "completed", "failed"])),
    st.tuples(st.just("crash"), _changes, st.integers(0, 6)),
    st.tuples(st.just("refuse"), _changes, st.integers(0, 6)),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("restart")),
)


@settings(max_examples=60, deadline=None)
@given(moves=st.lists(_moves, max_size=14), retain=st.integers(1, 3))
def test_whatever_happens_a_checkpoint_keeps_its_files_and_a_sweep_leaves_nothing_else(tmp_path_factory, moves, retain):
    job = Job(str(tmp_path_factory.mktemp("job")), retain)
    for move in moves:
        match move:
            case ("epoch", subtasks, outcome):
                job.run_epoch(subtasks, outcome)
            case ("sweep",):
                job.sweep()
                job.check_nothing_unneeded_is_left()
            case ("restart",):
                job = Job(job.storage.root, retain)
                job.recover()
            case (("crash" | "refuse") as how, subtasks, countdown):
                object.__setattr__(job.storage, "dies", how == "crash")
                job.storage.countdown[0] = countdown
                try:
                    job.run_epoch(subtasks, "completed")
                    job.sweep()
                except Crash:
                    job = Job(job.storage.root, retain)
                    job.recover()
                except StorageError:
                    pass  # logged; a later sweep finds it
                job.storage.countdown[0] = None
        job.check_nothing_needed_is_gone()
    # After a crash more checkpoints than wanted may be found; the next one subsumes them all.
    job.run_epoch(["rewritten"], "completed")
    job.sweep()
    job.check_nothing_needed_is_gone()
    job.check_nothing_unneeded_is_left()
    assert len(job.completed) <= retain
