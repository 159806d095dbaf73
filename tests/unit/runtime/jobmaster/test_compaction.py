"""Compaction beside processing: what is compacted when, what is adopted, and what happens when it does not work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.errors import StorageError, WorkerLostError
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot, SubtaskSnapshot
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.epoch.local_runner import LocalCompactor
from flott.runtime.jobmaster.compactor import LONGEST_BACKOFF, Compaction, chosen, due_runs, with_compacted
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.side_work import Inline, Threaded
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.compaction_policy import CompactionRules, Run
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, missing_files
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Crash, Faults, Incarnation, UnreliableStorage, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource

A, B = OperatorId("a" * 32), OperatorId("b" * 32)
SMALL = CompactionRules(fan_in=3, rewrite_min_deltas=3, smallest_tier_bytes=10**6)


def files(*names: str, size: int = 10) -> FileSequence:
    return tuple(StateFile(name, size, False) for name in names)


def operators(**sequences: FileSequence) -> dict[OperatorId, OperatorSnapshot]:
    """``a0=...``: the sequence of subtask 0 of operator A."""
    found: dict[OperatorId, list[SubtaskSnapshot]] = {}
    for place, sequence in sorted(sequences.items()):
        found.setdefault(A if place[0] == "a" else B, []).append(SubtaskSnapshot(sequence=sequence))
    return {i: OperatorSnapshot("o", None, len(subtasks), 128, tuple(subtasks)) for i, subtasks in found.items()}


def sequence_of(snapshots: dict[OperatorId, OperatorSnapshot], ident: OperatorId = A, subtask: int = 0) -> list[str]:
    return [file.name for file in snapshots[ident].subtasks[subtask].sequence or ()]


# --- decisions -------------------------------------------------------------------------------------------------------


def test_the_sequences_that_are_long_enough_are_due():
    found = due_runs(operators(a0=files("a", "b", "c"), a1=files("x"), b0=()), SMALL)
    assert found == {(A, 0): Run(0, 3)}


def test_those_due_for_longest_come_first_as_many_as_fit():
    sizes = {(A, 0): 50, (A, 1): 30, (B, 0): 30}
    since = {(A, 0): 5, (A, 1): 3, (B, 0): 4}
    assert chosen(sizes, since, 64, 1000) == [(A, 1), (B, 0), (A, 0)]
    assert chosen(sizes, since, 2, 1000) == [(A, 1), (B, 0)]
    assert chosen(sizes, since, 64, 80) == [(A, 1), (B, 0)]
    assert chosen(sizes, since, 64, 1) == [(A, 1)]
    assert chosen({}, {}, 64, 1000) == []


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8), st.integers(1, 3), st.integers(1, 150))
def test_no_sequence_is_starved_however_large_it_is(sizes, orders, limit):
    """Every sequence is due again as soon as it was compacted; still each has its turn."""
    places = {(A, index): size for index, size in enumerate(sizes)}
    since = dict.fromkeys(places, 0)
    seen: set[Any] = set()
    for epoch in range(1, 2 * len(sizes) + 1):
        taken = chosen(places, since, orders, limit)
        assert 1 <= len(taken) <= orders
        assert sum(places[place] for place in taken) <= max(limit, places[taken[0]])
        seen.update(taken)
        since.update(dict.fromkeys(taken, epoch))
    assert seen == places.keys()


def test_a_compacted_file_takes_the_place_of_exactly_what_it_was_made_of():
    sequence, compacted = files("a", "b", "c", "d"), StateFile("f", 9, False)
    assert with_compacted(sequence, files("b", "c"), compacted) == (*files("a"), compacted, *files("d"))
    for other in (files("b", "d"), files("c", "d", "e"), files("b", "c", size=11)):
        assert with_compacted(sequence, other, compacted) == sequence
    parts = tuple(replace(file, groups=(0, 5)) for file in sequence)
    assert with_compacted(parts, files("b", "c"), compacted) == parts


def test_a_base_stands_at_the_beginning_or_nowhere():
    sequence, base = files("a", "b", "c"), StateFile("f", 9, True)
    assert with_compacted(sequence, files("a", "b"), base) == (base, *files("c"))
    assert with_compacted(sequence, files("b", "c"), base) == sequence


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_whatever_a_worker_has_it_lacks_the_same_after_a_run_was_compacted(before, run, after, whole):
    """Up to the order in which merged changes are applied again, a compaction changes nothing for a worker's copy."""
    before = 0 if whole else before
    names = [f"d{n}" for n in range(before + run + after)]
    sequence = files(*names)
    compacted = StateFile("f", 9, whole, tuple(names[before : before + run]))
    adopted = with_compacted(sequence, sequence[before : before + run], compacted)
    for position, version in enumerate(names):
        lacking = missing_files(adopted, version)
        inside = before <= position < before + run - 1
        if inside and whole:
            assert lacking is None  # it starts over
        elif inside:
            assert lacking == adopted[before:]  # merged changes may be applied over a part of themselves
        else:
            expected = sequence[position + 1 :]
            assert lacking == (with_compacted(expected, sequence[before : before + run], compacted))


# --- the coordinator -------------------------------------------------------------------------------------------------


class Compactor:
    """Compacts by name only, or fails."""

    def __init__(self) -> None:
        self.fails: Callable[[CompactionOrder], bool] = lambda order: False
        self.asked: list[list[str]] = []
        self.cancelled = threading.Event()

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        self.asked.append([order.target for order in orders])
        if any(map(self.fails, orders)):
            raise StorageError("No space left on device.")
        return [StateFile(order.target, 9, order.whole) for order in orders]

    def stop(self, purpose: str) -> None:
        self.cancelled.set()


class Pending:
    """Never done."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def start(self, work: Callable[[], Any], name: str) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]

    def wait(self, future: Future[Any]) -> None:
        future.set_exception(WorkerLostError("waited for"))


def coordinator(folder: Path, beside: Any = None, rules: CompactionRules = SMALL) -> tuple[Compaction, Compactor, Any]:
    retained = RetainedCheckpoints(CheckpointStore(PosixStorage(str(folder), sync=False)), 1)
    compactor = Compactor()
    return Compaction(compactor, retained, beside or Inline(), "run", rules), compactor, retained


def complete(compaction: Compaction, retained: Any, epoch: int, snapshots: Any, final: bool = False) -> Manifest:
    """The end of an epoch, as the job master goes through it."""
    manifest = Manifest("j", "job", epoch, 0, 0, operators=compaction.adopt(snapshots), final=final)
    retained.add(manifest)
    retained.subsume()
    compaction.completed(manifest)
    return manifest


def test_what_is_due_after_one_epoch_is_adopted_with_the_next(tmp_path):
    compaction, compactor, retained = coordinator(tmp_path)
    complete(compaction, retained, 3, operators(a0=files("d1", "d2", "d3")))
    assert len(compactor.asked) == 1
    target = compactor.asked[0][0]
    assert all(retained.registry.is_referenced(name) for name in ("d1", "d2", "d3", target))
    done = complete(compaction, retained, 4, operators(a0=files("d1", "d2", "d3", "d4")))
    assert sequence_of(done.operators) == [target, "d4"]
    assert done.operators[A].subtasks[0].sequence[0].is_base
    assert not retained.registry.is_referenced("d1")
    assert retained.registry.owners == {"chk-4"}


def test_nothing_is_begun_after_the_last_epoch(tmp_path):
    compaction, compactor, retained = coordinator(tmp_path)
    complete(compaction, retained, 3, operators(a0=files("d1", "d2", "d3")), final=True)
    assert compactor.asked == []


def test_one_job_is_at_work_at_a_time(tmp_path):
    pending = Pending()
    compaction, _, retained = coordinator(tmp_path, pending)
    for epoch in range(3, 9):
        complete(compaction, retained, epoch, operators(a0=files(*(f"d{n}" for n in range(epoch)))))
    assert len(pending.futures) == 1


def test_the_result_of_a_compaction_is_thrown_away_if_the_job_was_rescaled_meanwhile(tmp_path):
    compaction, compactor, retained = coordinator(tmp_path)
    complete(compaction, retained, 3, operators(a0=files("d1", "d2", "d3")))
    (target,) = compactor.asked[0]
    PosixStorage(str(tmp_path), sync=False).write(target, b"")
    parts = tuple(replace(file, groups=(0, 64)) for file in files("d1", "d2", "d3"))
    done = complete(compaction, retained, 4, operators(a0=parts))
    assert sequence_of(done.operators) == ["d1", "d2", "d3"]
    assert not retained.registry.is_referenced(target)
    assert not (tmp_path / target).exists()
    assert len(compactor.asked) == 2  # the parts are compacted next


def test_a_compaction_that_fails_costs_a_warning_and_is_tried_again_less_and_less_often(tmp_path, caplog):
    compaction, compactor, retained = coordinator(tmp_path)
    compactor.fails = lambda order: True
    tried = []
    for epoch in range(3, 1000):
        before = len(compactor.asked)
        complete(compaction, retained, epoch, operators(a0=files("d1", "d2", "d3")))
        if len(compactor.asked) > before:
            tried.append(epoch)
    assert "No space left on device" in caplog.text
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= LONGEST_BACKOFF
    assert len(tried) < 20
    compactor.fails = lambda order: False
    for epoch in range(1000, 1300):
        done = complete(compaction, retained, epoch, operators(a0=files("d1", "d2", "d3")))
        if len(sequence_of(done.operators)) == 1:
            return
    raise AssertionError("it was never tried again")


def test_a_sequence_that_cannot_be_compacted_does_not_keep_the_others_from_it(tmp_path):
    compaction, compactor, retained = coordinator(tmp_path)
    compactor.fails = lambda order: any(file.name.startswith("bad") for file in order.sequence)
    sequences = {f"a{n}": files(*(f"g{n}-{i}" for i in range(3))) for n in range(4)}
    state = operators(**sequences, b0=files("bad1", "bad2", "bad3"))
    for epoch in range(3, 30):
        state = complete(compaction, retained, epoch, state).operators
    assert [len(sequence_of(state, A, n)) for n in range(4)] == [1, 1, 1, 1]
    assert sequence_of(state, B) == ["bad1", "bad2", "bad3"]


def test_an_epoch_waits_for_the_compaction_at_work_only_if_a_sequence_is_too_long(tmp_path):
    pending = Pending()
    compaction, _, retained = coordinator(tmp_path, pending, replace(SMALL, longest_sequence=5))
    state = operators(a0=files("d1", "d2", "d3", "d4", "d5"))
    complete(compaction, retained, 5, state)
    compaction.hold_up(state)
    assert not pending.futures[0].done()
    compaction.hold_up(operators(a0=files("d1", "d2", "d3", "d4", "d5", "d6")))
    assert pending.futures[0].done()


def test_the_end_of_a_job_ends_the_compaction_at_work_and_what_it_wrote_is_deleted(tmp_path):
    compaction, compactor, retained = coordinator(tmp_path, Threaded())
    storage, begun = PosixStorage(str(tmp_path), sync=False), threading.Event()

    def compact(orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        storage.write(f"{orders[0].target}-17", b"half")
        begun.set()
        compactor.cancelled.wait(120)
        raise WorkerLostError("cancelled")

    compactor.compact = compact  # type: ignore[method-assign]
    complete(compaction, retained, 3, operators(a0=files("d1", "d2", "d3")))
    begun.wait(120)
    retained.sweep(5)
    assert len(list((tmp_path / "state").iterdir())) == 1, "a sweep leaves a compaction at work alone"
    compaction.close()
    assert list((tmp_path / "state").iterdir()) == []


# --- in a job --------------------------------------------------------------------------------------------------------


def counting_job(ledger: Ledger, epochs: int = 60, retained: int = 1) -> StreamExecutionEnvironment:
    env = in_process(
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="1000",
        execution__checkpointing__num_retained=str(retained),
    )
    script = [entry for n in range(epochs) for entry in (n, EndOfEpoch())]
    numbers = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: (n % 5, 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).sink_to(
        LedgerSink(ledger)
    )
    return env


def expected(epochs: int = 60) -> list[tuple[int, int]]:
    return sorted((n % 5, n // 5 + 1) for n in range(epochs))


def longest_sequence(folder: Path) -> int:
    manifest = CheckpointStore(PosixStorage(str(folder))).completed()[-1]
    return max(len(subtask.sequence or ()) for op in manifest.operators.values() for subtask in op.subtasks)


@pytest.mark.parametrize("beside", [Inline, Threaded])
def test_sequences_stay_short_while_the_job_runs(tmp_path, beside):
    lengths: list[int] = []

    def look(step: str, epoch: int) -> None:
        if step == "completed":
            lengths.append(longest_sequence(tmp_path))

    ledger = Ledger(uuid4().hex)
    rules = CompactionRules(longest_sequence=16)
    ended = live(counting_job(ledger), tmp_path, on_step=look, beside=beside(), compaction_rules=rules)
    assert ended.status is JobStatus.FINISHED, ended.failure
    assert max(lengths) <= (9 if beside is Inline else 17)
    assert min(lengths[10:]) < 6
    assert sorted(ledger.records) == expected()


def test_a_job_whose_compactions_all_fail_goes_on_and_catches_up_later(tmp_path, caplog):
    faults = Faults(lambda verb, name: verb == "write" and "-fold-" in name)

    def recover(step: str, epoch: int) -> None:
        if epoch == 30:
            faults.fails = lambda verb, name: False

    ledger = Ledger(uuid4().hex)
    storage = UnreliableStorage(str(tmp_path), sync=False, faults=faults)
    ended = live(counting_job(ledger), tmp_path, storage=storage, on_step=recover)
    assert ended.status is JobStatus.FINISHED, ended.failure
    assert ended.history.restarts == []
    assert faults.refused > 1
    assert "could not be compacted" in caplog.text
    assert longest_sequence(tmp_path) < 20
    assert sorted(ledger.records) == expected()


@pytest.mark.parametrize("step", ["planned", "ran", "acknowledged", "completed", "committed"])
def test_a_crash_while_a_result_waits_to_be_adopted_loses_nothing_and_leaves_nothing(tmp_path, step):
    """Without one in between, a sequence is compacted in every epoch, so a result waits wherever the crash is."""
    ledger, rules = Ledger(uuid4().hex), CompactionRules(fan_in=2, rewrite_min_deltas=1)
    lives: list[Incarnation] = []
    while not lives or lives[-1].status is not JobStatus.FINISHED:
        end = 7 * (len(lives) + 1)

        def die(name: str, epoch: int, end: int = end) -> None:
            if (name, epoch) == (step, end):
                raise Crash

        lives.append(live(counting_job(ledger, retained=2), tmp_path, on_step=die, compaction_rules=rules))
    assert sum(life.crashed for life in lives) == 8
    assert sorted(ledger.records) == expected()
    completed = CheckpointStore(PosixStorage(str(tmp_path))).completed()
    found = {f"state/{path.name}" for path in (tmp_path / "state").iterdir()}
    assert found == {name for manifest in completed for name in manifest.files}


def test_the_local_compactor_stops_between_two_orders_when_it_is_told_to(tmp_path):
    compactor = LocalCompactor(PosixStorage(str(tmp_path)))
    compactor.stop("compaction")
    with pytest.raises(WorkerLostError, match="cancelled"):
        compactor.compact([CompactionOrder((), (0, 1), "t", True)], "compaction")
