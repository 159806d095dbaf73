"""Compaction beside processing: chains of state files are folded while epochs go on. Driver side.

    after an epoch: which runs are due? -> fold them, beside the next epochs -> adopt the result in the next checkpoint

At most one fold job is at work, of a bounded number of chains and bytes; those due for longest come first. Nothing in
the job waits for it, unless a chain has grown beyond all measure. A fold that fails costs a warning, never the job.

*When a result is adopted.* Between the acknowledgement of epoch n and the publication of checkpoint n: where a chain
still holds exactly the files that were folded, the folded file takes their place in the manifest. That is safe because

- the plan of epoch n was made from checkpoint n-1 alone, so what a task is told to restore never depends on a fold:
  a repeated attempt, in this process or after a crash, begins with the same files;
- the state that a chain describes does not change, only the files that describe it: the folded file is the same
  changes, and what an epoch appended meanwhile comes after them;
- a worker is at the version of the last file it contains. That file is either still in the chain, and the worker lacks
  what follows it; or it is the last one that was folded, which the new file remembers, and nothing is lacking; or it is
  an earlier one, and merged changes are applied over a part of themselves, while a base makes it start over
  (``state.chains.missing_files``);
- until checkpoint n is published the fold itself refers to its inputs and its result in the registry, so no sweep and
  no subsumption touches them. Then the fold lets go, and the registry says what is left without an owner: the inputs
  when the last checkpoint that has them goes, and at once a result whose inputs are in no chain any more, because the
  job was rescaled or restored meanwhile. A result that no checkpoint had adopted before a crash is an orphan.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.runner import EpochRunner
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.side_work import SideWork
from flott.runtime.managed_state.files.chains import Chain, StateFile
from flott.runtime.managed_state.files.compaction_policy import FoldRules, Run, run_to_fold
from flott.runtime.managed_state.files.folding import FoldOrder
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.managed_state.ttl.time_to_live import Horizon

log = logging.getLogger("flott.job")

#: After so many epochs at most, a chain that could not be folded is tried again.
LONGEST_BACKOFF = 256

#: The chain of an operator's subtask.
ChainPlace = tuple[OperatorId, int]
Operators = Mapping[OperatorId, OperatorSnapshot]


# --- decisions -------------------------------------------------------------------------------------------------------


def due_runs(operators: Operators, rules: FoldRules) -> dict[ChainPlace, Run]:
    """Which files of which chains should become one."""
    runs = ((place, run_to_fold(chain, rules)) for place, chain in _chains(operators))
    return {place: run for place, run in runs if run is not None}


def chosen(
    sizes: Mapping[ChainPlace, int], since: Mapping[ChainPlace, int], orders: int, limit: int
) -> list[ChainPlace]:
    """Which of the due chains are folded now: those due for longest, as many as fit, but at least one.

    A chain too large to go with others becomes the one due for longest, and goes alone.
    """
    taken: list[ChainPlace] = []
    total = 0
    for place in sorted(sizes, key=lambda place: (since[place], place)):
        if len(taken) < orders and (not taken or total + sizes[place] <= limit):
            taken.append(place)
            total += sizes[place]
    return taken


def with_folded(chain: Chain, run: Chain, folded: StateFile) -> Chain:
    """The chain with one file in the place of those it was made of; as it is, if they are not all there.

    A base stands at the beginning or nowhere: it does not say what is gone of files before it.
    """
    for start in range(1 if folded.is_base else len(chain) - len(run) + 1):
        if chain[start : start + len(run)] == run:
            return (*chain[:start], folded, *chain[start + len(run) :])
    return chain


def _chains(operators: Operators) -> Iterator[tuple[ChainPlace, Chain]]:
    for ident, operator in operators.items():
        for index, subtask in enumerate(operator.subtasks):
            if subtask.chain:
                yield (ident, index), subtask.chain


# --- the coordinator -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FoldJob:
    """A fold at work, or one whose result waits to be adopted."""

    owner: str  #: as the registry knows it
    orders: Mapping[ChainPlace, FoldOrder]
    future: Future[list[StateFile]]


class Compaction:
    """Folds the chains of one job. Called by the job master, in its thread, except for ``cancel``."""

    PURPOSE = "compaction"

    def __init__(
        self,
        runner: EpochRunner,
        retained: RetainedCheckpoints,
        beside: SideWork,
        run_id: str,
        rules: FoldRules | None = None,
    ):
        self._runner = runner
        self._retained = retained
        self._beside = beside
        self._run_id = run_id
        self._rules = rules or FoldRules()
        self._job: _FoldJob | None = None
        self._started = 0
        self._epoch = self._completed_at_ms = 0
        self._orders_at_once = self._rules.max_orders
        self._due_since: dict[ChainPlace, int] = {}  #: the epoch at which a chain became due
        self._failures: dict[ChainPlace, int] = {}  #: in a row, of a chain that was folded alone
        self._not_before: dict[ChainPlace, int] = {}  #: the epoch at which such a chain is tried again
        retained.is_being_written = self._is_being_written

    def adopt(self, operators: dict[OperatorId, OperatorSnapshot]) -> dict[OperatorId, OperatorSnapshot]:
        """What an epoch ended with, with the result of a fold that is done in the place of what was folded."""
        if self._job is None or not self._job.future.done():
            return operators
        if (error := self._job.future.exception()) is not None:
            self._give_up(self._job, error)
            return operators
        results = dict(zip(self._job.orders, self._job.future.result(), strict=True))
        self._retained.registry.register(self._job.owner, (file.name for file in results.values()))
        return {ident: self._adopt_operator(ident, snapshot, results) for ident, snapshot in operators.items()}

    def _adopt_operator(
        self, ident: OperatorId, snapshot: OperatorSnapshot, results: Mapping[ChainPlace, StateFile]
    ) -> OperatorSnapshot:
        assert self._job is not None
        subtasks = list(snapshot.subtasks)
        for index, subtask in enumerate(subtasks):
            if subtask.chain and (folded := results.get((ident, index))) is not None:
                run = self._job.orders[ident, index].chain
                subtasks[index] = replace(subtask, chain=with_folded(subtask.chain, run, folded))
        return replace(snapshot, subtasks=tuple(subtasks))

    def completed(self, manifest: Manifest) -> None:
        """A checkpoint was published, and has adopted what is done: let go of that, and fold what is due now."""
        self._epoch, self._completed_at_ms = manifest.checkpoint_id, manifest.completed_at_ms
        if self._job is not None and self._job.future.done():
            self._settle(self._job)
        if self._job is None and not manifest.final:
            self._start(manifest.operators)

    def hold_up(self, operators: Operators) -> None:
        """Before an epoch: wait for the fold at work if a chain is so long that it must not grow any further."""
        if self._job is not None and not self._job.future.done():
            longest = max((len(chain) for _, chain in _chains(operators)), default=0)
            if longest > self._rules.longest_chain:
                log.debug("A chain of state files is %d files long: waiting for compaction.", longest)
                self._beside.wait(self._job.future)

    def cancel(self) -> None:
        """End a fold at work, from any thread."""
        self._runner.cancel_fold(self.PURPOSE)

    def close(self) -> None:
        """End a fold at work and forget its result."""
        if self._job is not None:
            self.cancel()
            self._beside.wait(self._job.future)
            self._discard(self._job)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _start(self, operators: Operators) -> None:
        due = due_runs(operators, self._rules)
        self._due_since = {place: self._due_since.get(place, self._epoch) for place in due}
        chains = dict(_chains(operators))
        runs = {
            place: chains[place][run.start : run.stop]
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
        self._retained.registry.register(owner, (file.name for order in orders.values() for file in order.chain))
        self._retained.registry.register(owner, (order.target for order in orders.values()))
        listed = list(orders.values())
        future = self._beside.start(lambda: self._runner.fold(listed, self.PURPOSE), f"flott-fold-{self._started}")
        self._job = _FoldJob(owner, orders, future)

    def _order(self, place: ChainPlace, run: Chain, whole: bool, operators: Operators, owner: str) -> FoldOrder:
        ident, subtask = place
        snapshot = operators[ident]
        groups = groups_of(subtask, snapshot.max_parallelism, snapshot.parallelism)
        target = paths.folded(ident, subtask, self._epoch, owner)
        horizon = Horizon(self._completed_at_ms, snapshot.subtasks[subtask].watermark)
        return FoldOrder(run, (groups.start, groups.stop), target, whole, horizon)

    def _settle(self, job: _FoldJob) -> None:
        if (error := job.future.exception()) is not None:
            self._give_up(job, error)
            return
        self._job = None
        self._orders_at_once = min(2 * self._orders_at_once, self._rules.max_orders)
        for place in job.orders:
            self._failures.pop(place, None)
            self._not_before.pop(place, None)
        self._retained.release(job.owner)

    def _give_up(self, job: _FoldJob, error: BaseException) -> None:
        log.warning(
            "State files could not be folded (%s: %s). The job goes on without; it is tried again later.",
            type(error).__name__, error,
        )  # fmt: skip
        self._discard(job)
        if len(job.orders) > 1:
            self._orders_at_once = 1  # one of them may be the culprit: the others must not suffer
            return
        for place in job.orders:
            self._failures[place] = self._failures.get(place, 0) + 1
            self._not_before[place] = self._epoch + min(2 ** self._failures[place], LONGEST_BACKOFF)

    def _discard(self, job: _FoldJob) -> None:
        """Forget a job; what it wrote goes, whole or in part, by whichever attempt."""
        self._job = None
        targets = tuple(order.target for order in job.orders.values())
        self._retained.release(job.owner)
        self._retained.delete_state_files(lambda name: name.startswith(targets))

    def _is_being_written(self, name: str) -> bool:
        """A carrier may add the number of its attempt to the name it was given."""
        job = self._job
        return job is not None and name.startswith(tuple(order.target for order in job.orders.values()))
