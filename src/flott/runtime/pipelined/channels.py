"""JobImage -> the channels between its tasks. Pure. Task side, and on the driver to count slots.

All vertices of a stage share its tasks, and task *p* of every stage runs in slot *p*. A task sends to those tasks that
hold a receiver of one of its edges, as the partitioning of the edge says.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.graph.job_graph import JobEdge
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.partitioners import make_chooser
from flott.runtime.pipelined.messages import Channel, TaskAddress


@dataclass(frozen=True)
class ChannelEdges:
    """A channel and the edges whose records and event time it carries."""

    channel: Channel
    edges: tuple[int, ...]


def slots_of(image: JobImage) -> int:
    """Return how many slots a job needs: one for each task of its widest stage."""
    return max(stage.width for stage in image.topology.stages)


def tasks_of(image: JobImage, partition: int) -> list[TaskAddress]:
    """Return the tasks that run in a slot, the sources first."""
    return [TaskAddress(stage.index, partition) for stage in image.topology.stages if partition < stage.width]


def find_channels(image: JobImage) -> list[ChannelEdges]:
    """Return all channels of a job, in a fixed order."""
    found: dict[Channel, list[int]] = {}
    for stage in image.topology.stages:
        for ident in stage.vertices:
            _, incoming, _ = image.load_vertex(ident)
            for edge in incoming:
                if edge.index not in image.topology.local_edges:
                    for channel in _channels_of(image, edge):
                        found.setdefault(channel, []).append(edge.index)
    return [ChannelEdges(channel, tuple(edges)) for channel, edges in sorted(found.items())]


def _channels_of(image: JobImage, edge: JobEdge) -> list[Channel]:
    source, target = image.shapes[edge.source], image.shapes[edge.target]
    stage_of = image.topology.stage_of
    return [
        Channel(TaskAddress(stage_of[edge.source], sender), TaskAddress(stage_of[edge.target], receiver))
        for sender in range(source.parallelism)
        for receiver in make_chooser(
            edge.partitioning, sender, source.parallelism, target.parallelism, target.max_parallelism
        ).receivers
    ]
