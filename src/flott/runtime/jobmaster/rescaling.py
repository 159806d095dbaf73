"""Change the parallelism of a running job: its new graph, and which subtask reads which split. Pure. Driver side.

The parallelism of the job is that of all operators that do not have one of their own, exactly as if the program had
been started with it. An operator has one of its own if the program set it (``set_parallelism``), if its source prefers
one, if it is not parallel at all, or if it was rescaled alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flott.datastream._step_settings import check_parallelism
from flott.errors import ProgramError
from flott.graph.connection import with_parallelism
from flott.graph.operator_ids import operator_ids
from flott.graph.stream_graph import StreamGraph, StreamNode
from flott.runtime.orders import RescaleJob


@dataclass(frozen=True)
class ParallelismChange:
    """The change of one operator."""

    operator: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.operator}: {self.before} -> {self.after}"


def rescale(graph: StreamGraph, order: RescaleJob) -> StreamGraph:
    """Return the program with the ordered parallelism. Refuses what is not possible and says why."""
    check_parallelism(order.parallelism, f"rescale() of job {graph.job_name!r}")
    if graph.batch:
        raise ProgramError(
            f"Job {graph.job_name!r} runs in BATCH mode, which is one epoch: its parallelism cannot change between two."
            " Start it with another parallelism, or set execution.runtime-mode to STREAMING."
        )
    if order.operator is None:
        return _rescale_all(graph, order.parallelism)
    return _rescale_one(graph, find_operator(graph, order.operator), order.parallelism)


def _rescale_all(graph: StreamGraph, parallelism: int) -> StreamGraph:
    following = [node for node in graph.nodes if not node.fixed_parallelism]
    if not following:
        raise ProgramError(
            f"Every operator of job {graph.job_name!r} has a parallelism of its own, so there is none for the job. Name"
            f" the operator to change: {_listed(graph)}."
        )
    limit = limit_of(graph)
    if parallelism > limit:
        raise ProgramError(
            f"Job {graph.job_name!r} cannot have parallelism {parallelism}: its state is in {limit} key groups, the"
            f" maximum parallelism it was started with. Ask for {limit} at most."
        )
    return with_parallelism(graph, {node.id: min(parallelism, node.max_parallelism) for node in following})


def _rescale_one(graph: StreamGraph, node: StreamNode, parallelism: int) -> StreamGraph:
    if parallelism > node.max_parallelism:
        reason = (
            "it is not parallel"
            if node.max_parallelism == 1
            else f"its state is in {node.max_parallelism} key groups, the maximum parallelism it was started with"
        )
        raise ProgramError(
            f"Operator {node.name!r} ({node.source_line}) cannot have parallelism {parallelism}: {reason}."
        )
    nodes = tuple(replace(n, fixed_parallelism=True) if n.id == node.id else n for n in graph.nodes)
    return with_parallelism(replace(graph, nodes=nodes), {node.id: parallelism})


def find_operator(graph: StreamGraph, name: str) -> StreamNode:
    """Return the operator with this uid, this id or, if it is the only one, this name."""
    ids = operator_ids(graph)
    for matching in (
        [node for node in graph.nodes if node.uid == name],
        [node for node in graph.nodes if ids[node.id] == name],
        [node for node in graph.nodes if name in {node.name, node.name.partition(": ")[2]}],
    ):
        if len(matching) == 1:
            return matching[0]
        if matching:
            lines = ", ".join(f"{ids[node.id]} ({node.source_line})" for node in matching)
            raise ProgramError(
                f"{len(matching)} operators of job {graph.job_name!r} are called {name!r}. Give each a uid(), or name"
                f" one by its id: {lines}."
            )
    names = [text for node in graph.nodes for text in (node.uid, node.name) if text]
    nearest = difflib.get_close_matches(name, names, 1)
    suggestion = f"Did you mean {nearest[0]!r}?" if nearest else f"It has {_listed(graph)}."
    raise ProgramError(f"Job {graph.job_name!r} has no operator with the uid, id or name {name!r}. {suggestion}")


def _listed(graph: StreamGraph) -> str:
    return ", ".join(repr(node.uid or node.name) for node in graph.nodes)


def parallelism_of(graph: StreamGraph) -> int:
    """Return the parallelism of the job: the highest among the operators that follow it."""
    following = [node.parallelism for node in graph.nodes if not node.fixed_parallelism]
    return max(following or [node.parallelism for node in graph.nodes])


def limit_of(graph: StreamGraph) -> int:
    """Return the highest possible parallelism of the job; 0 if no operator follows it."""
    return max((node.max_parallelism for node in graph.nodes if not node.fixed_parallelism), default=0)


def changes(before: StreamGraph, after: StreamGraph) -> tuple[ParallelismChange, ...]:
    """Return which operators differ in parallelism."""
    return tuple(
        ParallelismChange(old.uid or old.name, old.parallelism, new.parallelism)
        for old, new in zip(before.nodes, after.nodes, strict=True)
        if old.parallelism != new.parallelism
    )


def deal_splits(readers: Mapping[str, int], parallelism: int) -> dict[str, int]:
    """Return which subtask reads each split from now on: the same as before, unless it would have too many."""
    share = -(-len(readers) // parallelism)
    dealt: dict[str, int] = {}
    load = [0] * parallelism
    for split, reader in sorted(readers.items()):
        if reader < parallelism and load[reader] < share:
            dealt[split] = reader
            load[reader] += 1
    for split in sorted(readers.keys() - dealt.keys()):
        dealt[split] = load.index(min(load))
        load[dealt[split]] += 1
    return dealt
