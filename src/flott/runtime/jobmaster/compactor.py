"""Compaction beside processing: sequences of state files are compacted while epochs go on. Driver side.

    after an epoch: which runs are due? -> compact them, beside epochs -> adopt the result in the next checkpoint

At most one compaction job is at work, of a bounded number of sequences and bytes; those due for longest come first.
Nothing in the job waits for it, unless a sequence has grown beyond all measure. A compaction that fails costs a
warning, never the job.

*When a result is adopted.* Between the acknowledgement of epoch n and the publication of checkpoint n: where a sequence
still holds exactly the files that were compacted, the compacted file takes their place in the manifest. That is safe
because

- the plan of epoch n was made from checkpoint n-1 alone, so what a task is told to restore never depends on a
  compaction: a repeated attempt, in this process or after a crash, begins with the same files;
- the state that a sequence describes does not change, only the files that describe it: the compacted file is the same
  changes, and what an epoch appended meanwhile comes after them;
- a worker is at the version of the last file it contains. That file is either still in the sequence, and the worker
  lacks what follows it; or it is the last one that was compacted, which the new file remembers, and nothing is lacking;
  or it is an earlier one, and merged changes are applied over a part of themselves, while a base makes it start over
  (``file_sequence.missing_files``);
- until checkpoint n is published the compaction itself refers to its inputs and its result in the registry, so no sweep
  and no subsumption touches them. Then the compaction lets go, and the registry says what is left without an owner: the
  inputs when the last checkpoint that has them goes, and at once a result whose inputs are in no sequence any more,
  because the job was rescaled or restored meanwhile. A result that no checkpoint adopted before a crash is an orphan.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.side_work import SideWork
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.compaction_policy import CompactionRules, Run, run_to_compact
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.managed_state.ttl.time_to_live import Horizon

log = logging.getLogger("flott.job")

#: After so many epochs at most, a sequence that could not be compacted is tried again.
LONGEST_BACKOFF = 256

#: The operator's subtask whose file sequence is meant.
SequencePlace = tuple[OperatorId, int]
Operators = Mapping[OperatorId, OperatorSnapshot]


# --- decisions -------------------------------------------------------------------------------------------------------


def due_runs(operators: Operators, rules: CompactionRules) -> dict[SequencePlace, Run]:
    """Return which files of which sequences should become one."""
    runs = ((place, run_to_compact(sequence, rules)) for place, sequence in _sequences(operators))
    return {place: run for place, run in runs if run is not None}


def chosen(
    sizes: Mapping[SequencePlace, int], since: Mapping[SequencePlace, int], orders: int, limit: int
) -> list[SequencePlace]:
    """Return which due sequences are compacted now: those due for longest, as many as fit, but at least one.

    A sequence too large to go with others becomes the one due for longest, and goes alone.
    """
    taken: list[SequencePlace] = []
    total = 0
    for place in sorted(sizes, key=lambda place: (since[place], place)):
        if len(taken) < orders and (not taken or total + sizes[place] <= limit):
            taken.append(place)
            total += sizes[place]
    return taken


def with_compacted(sequence: FileSequence, run: FileSequence, compacted: StateFile) -> FileSequence:
    """Return the sequence with one file in place of those it was made of; unchanged if they are not all there.

    A base stands at the beginning or nowhere: it does not say what is gone of files before it.
    """
    for start in range(1 if compacted.is_base else len(sequence) - len(run) + 1):
        if sequence[start : start + len(run)] == run:
            return (*sequence[:start], compacted, *sequence[start + len(run) :])
    return sequence


def _sequences(operators: Operators) -> Iterator[tuple[SequencePlace, FileSequence]]:
    for ident, operator in operators.items():
        for index, subtask in enumerate(operator.subtasks):
            if subtask.sequence:
                yield (ident, index), subtask.sequence


# --- the coordinator -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CompactionJob:
    """A compaction at work, or one whose result waits to be adopted."""

    owner: str  #: as the registry knows it
    orders: Mapping[SequencePlace, CompactionOrder]
    future: Future[list[StateFile]]


class Compaction:
    """Compacts the file sequences of one job. Called by the job master, in its thread, except for ``cancel``."""

    PURPOSE = "compaction"

    def __init__(
        self,
        compactor: StateCompactor,
        retained: RetainedCheckpoints,
        beside: SideWork,
        run_id: str,
        rules: CompactionRules | None = None,
    ):
        self._compactor = compactor
        self._retained = retained
        self._beside = beside
        self._run_id = run_id
        self._rules = rules or CompactionRules()
        self._job: _CompactionJob | None = None
        self._started = 0
        self._epoch = self._completed_at_ms = 0
        self._orders_at_once = self._rules.max_orders
        self._due_since: dict[SequencePlace, int] = {}  #: the epoch at which a sequence became due
        self._failures: dict[SequencePlace, int] = {}  #: in a row, of a sequence that was compacted alone
        self._not_before: dict[SequencePlace, int] = {}  #: the epoch at which such a sequence is tried again
        retained.is_being_written = self._is_being_written

    def adopt(self, operators: dict[OperatorId, OperatorSnapshot]) -> dict[OperatorId, OperatorSnapshot]:
        """Return the operators of an epoch, with the result of a finished compaction in place of its inputs."""
        if self._job is None or not self._job.future.done():
            return operators
        if (error := self._job.future.exception()) is not None:
            self._give_up(self._job, error)
            return operators
        results = dict(zip(self._job.orders, self._job.future.result(), strict=True))
        self._retained.registry.register(self._job.owner, (file.name for file in results.values()))
        return {ident: self._adopt_operator(ident, snapshot, results) for ident, snapshot in operators.items()}

    def _adopt_operator(
        self, ident: OperatorId, snapshot: OperatorSnapshot, results: Mapping[SequencePlace, StateFile]
    ) -> OperatorSnapshot:
        assert self._job is not None
        subtasks = list(snapshot.subtasks)
        for index, subtask in enumerate(subtasks):
            if subtask.sequence and (compacted := results.get((ident, index))) is not None:
                run = self._job.orders[ident, index].sequence
                subtasks[index] = replace(subtask, sequence=with_compacted(subtask.sequence, run, compacted))
        return replace(snapshot, subtasks=tuple(subtasks))

    def completed(self, manifest: Manifest) -> None:
        """Release what a published checkpoint has adopted, and compact what is due now."""
        self._epoch, self._completed_at_ms = manifest.checkpoint_id, manifest.completed_at_ms
        if self._job is not None and self._job.future.done():
            self._settle(self._job)
        if self._job is None and not manifest.final:
            self._start(manifest.operators)

    def hold_up(self, operators: Operators) -> None:
        """Wait for the running compaction, before an epoch, if a sequence is so long that it must not grow."""
        if self._job is not None and not self._job.future.done():
            longest = max((len(sequence) for _, sequence in _sequences(operators)), default=0)
            if longest > self._rules.longest_sequence:
                log.debug("A sequence of state files is %d files long: waiting for compaction.", longest)
                self._beside.wait(self._job.future)

    def cancel(self) -> None:
        """End a compaction at work, from any thread."""
        self._compactor.stop(self.PURPOSE)

    def close(self) -> None:
        """End a compaction at work and forget its result."""
        if self._job is not None:
            self.cancel()
            self._beside.wait(self._job.future)
            self._discard(self._job)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _start(self, operators: Operators) -> None:
        due = due_runs(operators, self._rules)
        self._due_since = {place: self._due_since.get(place, self._epoch) for place in due}
        sequences = dict(_sequences(operators))
        runs = {
            place: sequences[place][run.start : run.stop]
            for place, run in due.items()
            if self._not_before.get(place, 0) <= self._epoch
        }
        sizes = {place: sum(file.size for file in files) for place, files in runs.items()}
        places = chosen(sizes, self._due_since, self._orders_at_once, self._rules.max_bytes)
        if not places:
            return
        self._started += 1
        owner = f"{self._run_id}-fold-{self._started}"
        orders = {place: self._order(place, runs[place], due[place].whole, operators, owner) for place in places}
        # Before it begins: what it reads and what it writes must not be deleted meanwhile.
        self._retained.registry.register(owner, (file.name for order in orders.values() for file in order.sequence))
        self._retained.registry.register(owner, (order.target for order in orders.values()))
        listed = list(orders.values())
        work = partial(self._compactor.compact, listed, self.PURPOSE)
        future = self._beside.start(work, f"flott-compaction-{self._started}")
        self._job = _CompactionJob(owner, orders, future)

    def _order(
        self, place: SequencePlace, run: FileSequence, whole: bool, operators: Operators, owner: str
    ) -> CompactionOrder:
        ident, subtask = place
        snapshot = operators[ident]
        groups = groups_of(subtask, snapshot.max_parallelism, snapshot.parallelism)
        target = paths.compacted(ident, subtask, self._epoch, owner)
        horizon = Horizon(self._completed_at_ms, snapshot.subtasks[subtask].watermark)
        return CompactionOrder(run, (groups.start, groups.stop), target, whole, horizon)

    def _settle(self, job: _CompactionJob) -> None:
        if (error := job.future.exception()) is not None:
            self._give_up(job, error)
            return
        self._job = None
        self._orders_at_once = min(2 * self._orders_at_once, self._rules.max_orders)
        for place in job.orders:
            self._failures.pop(place, None)
            self._not_before.pop(place, None)
        self._retained.release(job.owner)

    def _give_up(self, job: _CompactionJob, error: BaseException) -> None:
        log.warning(
            "State files could not be compacted (%s: %s). The job continues without; it is tried again later.",
            type(error).__name__, error,
        )  # fmt: skip
        self._discard(job)
        if len(job.orders) > 1:
            self._orders_at_once = 1  # one of them may be the culprit: the others must not suffer
            return
        for place in job.orders:
            self._failures[place] = self._failures.get(place, 0) + 1
            self._not_before[place] = self._epoch + min(2 ** self._failures[place], LONGEST_BACKOFF)

    def _discard(self, job: _CompactionJob) -> None:
        """Forget a compaction job and delete what any of its attempts wrote."""
        self._job = None
        targets = tuple(order.target for order in job.orders.values())
        self._retained.release(job.owner)
        self._retained.delete_state_files(lambda name: name.startswith(targets))

    def _is_being_written(self, name: str) -> bool:
        """Return whether a file is being written. A runner may add the number of its attempt to the name."""
        job = self._job
        return job is not None and name.startswith(tuple(order.target for order in job.orders.values()))
