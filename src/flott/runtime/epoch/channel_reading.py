"""Reading what was on its way at an unaligned checkpoint: the buffers that a subtask begins with. Task side.

Both modes use it. A pipelined task puts the buffers into its input channels, ahead of everything that comes; a task of
an epoch puts them into its input gate, ahead of the rows of other tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.graph.job_graph import JobEdge
from flott.graph.partitioning import Global, Hash
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.partitioners import Chooser, Positions, make_chooser
from flott.runtime.epoch.plan import ChannelPart, EpochPlan
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.wire import DATA, TIME, Row, decode_batch, encode_batch
from flott.runtime.managed_state.files.channel_file import decode_time, is_time, read_section
from flott.runtime.operators.batch import Batch, ColumnBatch, RowBatch

#: Rows of buffers that were saved come before those of all tasks, which have channels from zero on.
BEFORE_ALL = -1 << 31


def saved_rows(task: StageTask, plan: EpochPlan) -> Iterator[Row]:
    """Yield what the subtasks of a task begin with, in order, as rows. The channel is the former sender.

    DATA rows have the payload of a buffer, TIME rows an event time that was told then: (watermark, idle, ended).
    """
    for subtask in task.subtasks:
        for edge in task.incoming[subtask.vertex.id]:
            parts = plan.channels.get(edge.index, ())
            if parts and edge.index not in task.image.topology.local_edges:
                stage = task.stage.index
                entries = _entries(task.image, edge, subtask.index, parts[subtask.index])
                for sequence, (kind, sender, payload) in enumerate(entries):
                    yield stage, subtask.index, kind, edge.index, sender, sequence, payload


def _entries(
    image: JobImage, edge: JobEdge, receiver: int, parts: tuple[ChannelPart, ...]
) -> Iterator[tuple[int, int, Any]]:
    """Yield the kind, the former sender and the payload of every row."""
    chooser: Chooser | None = None
    for part in parts:
        position = part.section.receiver
        for payload in read_section(image.storage, part.file, part.section):
            if is_time(payload):
                if part.timed:
                    yield TIME, part.section.sender, decode_time(payload)
                continue
            if part.whole:
                yield DATA, part.section.sender, payload
                continue
            chooser = chooser or _chooser(image, edge)
            batch, origin = decode_batch(payload)
            own = share_of(batch, chooser, image.shapes[edge.target].parallelism, receiver, position)
            position += len(batch)
            if own is not None:
                yield DATA, part.section.sender, encode_batch(own, origin)


def _chooser(image: JobImage, edge: JobEdge) -> Chooser | None:
    """Return what chooses targets by the records alone; None if the partitioning does not go by records."""
    if not isinstance(edge.partitioning, Hash | Global):
        return None
    source, target = image.shapes[edge.source], image.shapes[edge.target]
    return make_chooser(edge.partitioning, 0, source.parallelism, target.parallelism, target.max_parallelism)


def share_of(batch: Batch, chooser: Chooser | None, targets: int, receiver: int, position: int) -> Batch | None:
    """Return the records of a batch that one of the targets gets; None if there are none.

    Without a chooser they are dealt out in turn, beginning at a position that all targets know.
    """
    if chooser is None:
        return _taken(batch, range((receiver - position) % targets, len(batch), targets))
    chosen = chooser.targets(batch)
    if isinstance(chosen, int):
        return batch if chosen == receiver else None
    if isinstance(chosen, Positions):
        return _taken(batch, chosen.by_target[receiver])
    return _taken(batch, [index for index, target in enumerate(chosen) if target == receiver])


def _taken(batch: Batch, positions: object) -> Batch | None:
    indices = list(positions)  # type: ignore[call-overload]
    if not indices:
        return None
    if len(indices) == len(batch):
        return batch
    if isinstance(batch, ColumnBatch):
        return batch.take(indices)
    return RowBatch(
        [batch.values[index] for index in indices],
        None if batch.timestamps is None else [batch.timestamps[index] for index in indices],
        None if batch.kinds is None else bytes(batch.kinds[index] for index in indices),
    )
