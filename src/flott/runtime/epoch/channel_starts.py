"""Distributes what was on its way at an unaligned checkpoint over the subtasks that receive it. Pure. Driver side.

With the parallelism of the checkpoint every subtask gets the buffers that were sent to it. With another one each of
them reads the buffers that may hold records for it, and takes those that the partitioning gives it (``channel_reading``
does so). A record is taken by exactly one subtask in both cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flott.graph.edge_ids import EdgeId, edge_ids, may_be_overtaken
from flott.graph.job_graph import JobEdge, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.partitioning import Hash
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.plan import ChannelPart, ChannelStarts
from flott.runtime.epoch.redistribute import is_rescaled
from flott.runtime.managed_state.files.channel_file import ChannelFile, ChannelSection
from flott.runtime.managed_state.key_groups import groups_of

#: A section and the file it is in.
_Found = tuple[str, ChannelSection]


def channel_starts(manifest: Manifest | None, graph: JobGraph) -> ChannelStarts:
    """Return the buffers that each subtask begins with, in the order in which they were sent."""
    if manifest is None or not manifest.channels:
        return {}
    found = _by_edge(manifest.channels)
    idents = edge_ids(graph)
    timed = not is_rescaled(manifest.operators, graph)  # else all begin where the slowest stood (``level``)
    return {
        edge.index: _parts(edge, graph, found[ident], manifest.operators, timed)
        for edge in graph.edges
        if (ident := idents[edge.index]) in found and may_be_overtaken(edge)
    }


def unclaimed_edges(manifest: Manifest, graph: JobGraph) -> list[EdgeId]:
    """Return the edges of which a checkpoint holds buffers and which the program does not have."""
    idents = edge_ids(graph)
    claimed = {idents[edge.index] for edge in graph.edges if may_be_overtaken(edge)}
    return sorted(_by_edge(manifest.channels).keys() - claimed)


def without_edges(files: Iterable[ChannelFile], edges: Iterable[EdgeId]) -> tuple[ChannelFile, ...]:
    """Return channel-state files without the sections of some edges, and without files that hold nothing else."""
    left = set(edges)
    kept = (
        ChannelFile(file.name, file.size, tuple(part for part in file.sections if part.edge not in left))
        for file in files
    )
    return tuple(file for file in kept if file.sections)


def _by_edge(files: Iterable[ChannelFile]) -> dict[EdgeId, list[_Found]]:
    found: dict[EdgeId, list[_Found]] = {}
    for file in files:
        for section in file.sections:
            found.setdefault(section.edge, []).append((file.name, section))
    for sections in found.values():
        sections.sort(key=lambda one: (one[1].sender, one[1].receiver, one[1].place.value))
    return found


def _parts(
    edge: JobEdge,
    graph: JobGraph,
    found: Sequence[_Found],
    operators: Mapping[OperatorId, OperatorSnapshot],
    timed: bool,
) -> tuple[tuple[ChannelPart, ...], ...]:
    target = graph.vertex(edge.target)
    former = operators.get(target.head.id)
    same_groups = former is not None and former.max_parallelism == target.max_parallelism
    same_subtasks = former is not None and same_groups and former.parallelism == target.parallelism

    def part_for(receiver: int, name: str, section: ChannelSection) -> ChannelPart | None:
        if same_subtasks and section.partitioning == edge.partitioning.label:
            return ChannelPart(name, section, whole=True, timed=timed) if section.receiver == receiver else None
        by_group = isinstance(edge.partitioning, Hash) and section.partitioning == edge.partitioning.label
        if former is not None and same_groups and by_group:
            before = groups_of(section.receiver, former.max_parallelism, former.parallelism)
            now = groups_of(receiver, target.max_parallelism, target.parallelism)
            if before.stop <= now.start or now.stop <= before.start:
                return None  # none of its keys is here
        return ChannelPart(name, section, whole=False, timed=False)

    return tuple(
        tuple(part for name, section in found if (part := part_for(receiver, name, section)) is not None)
        for receiver in range(target.parallelism)
    )
