"""A checkpoint as a value, and its one spelling on disk (`_metadata`, versioned JSON behind a checksum). Driver side.

No other module knows its fields. It is JSON, because it must be readable by people, by other languages and by every
later version; the few values that are the user's own objects (attributes of a watermark generator) are pickled and
base64-encoded. The line before the JSON says what the file is, its version, checksum and length, so that damage is
told from health and a later version from damage: ``docs/formats/metadata.md``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from flott.common._ids import EpochId, JobId
from flott.common._savepoint_format import SavepointFormatType
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.connectors.base import Json, Slice, SlicePlan
from flott.errors import CorruptStateError
from flott.graph.edge_ids import EdgeId
from flott.graph.operator_ids import OperatorId
from flott.runtime.managed_state.files.channel_file import ChannelFile, ChannelSection, QueueEnd
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.operator.operator_shares import Mode, OperatorStateFile, StateShape
from flott.runtime.operators.watermarks import TimeProgress

VERSION = 2

#: Among the splits of a source: stands for the source itself while it has none.
NO_SPLIT = ""


@dataclass(frozen=True)
class SubtaskSnapshot:
    """One operator subtask at the checkpoint."""

    watermark: int = MIN_WATERMARK
    sequence: FileSequence | None = None
    progress: TimeProgress | None = None
    operator_state: OperatorStateFile | None = None

    @property
    def files(self) -> tuple[StateFile | OperatorStateFile, ...]:
        """Return all state files it refers to."""
        return (*(self.sequence or ()), *((self.operator_state,) if self.operator_state is not None else ()))


@dataclass(frozen=True)
class OperatorSnapshot:
    """One operator at the checkpoint."""

    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskSnapshot, ...]

    @property
    def has_keyed_state(self) -> bool:
        """Return whether any subtask holds keyed state."""
        return any(subtask.sequence for subtask in self.subtasks)

    @property
    def has_state(self) -> bool:
        """Return whether any subtask holds state, keyed or not."""
        return any(subtask.files for subtask in self.subtasks)


@dataclass(frozen=True)
class SourceSnapshot:
    """One source at the checkpoint."""

    enumerator: Json
    splits: dict[str, TimeProgress]
    finished: bool = False
    readers: tuple[tuple[str, ...], ...] = ()  #: the splits that each subtask reads


@dataclass(frozen=True)
class SavepointMark:
    """What makes a manifest that of a savepoint: it belongs to its user, not to a job."""

    ident: str  #: the name its folder was made with, and that of its pin
    format: SavepointFormatType
    home: str | None = None  #: native: the directory of the job whose files it refers to
    drained: bool = False  #: the job's sources were ended for it: event time is at its end


@dataclass(frozen=True)
class Manifest:
    """A completed checkpoint: everything needed to continue from it."""

    job_id: JobId
    job_name: str
    checkpoint_id: EpochId  #: the epoch whose end it is
    completed_at_ms: int
    seed: int
    operators: dict[OperatorId, OperatorSnapshot] = field(default_factory=dict)
    sources: dict[OperatorId, SourceSnapshot] = field(default_factory=dict)
    committables: dict[OperatorId, list[Json]] = field(default_factory=dict)
    attempts: tuple[str, ...] = ()  #: the task attempts whose output counts
    wakeup_ms: int | None = None  #: the earliest processing-time timer
    final: bool = False  #: the job has finished with it
    accumulators: bytes | None = None  #: the user's, over all epochs up to this one, pickled by name
    savepoint: SavepointMark | None = None
    channels: tuple[ChannelFile, ...] = ()  #: what was on its way between tasks; empty if the checkpoint is aligned

    @property
    def files(self) -> frozenset[str]:
        """Return the names of all state files it refers to."""
        names = {file.name for operator in self.operators.values() for part in operator.subtasks for file in part.files}
        return frozenset(names.union(file.name for file in self.channels))

    @property
    def state_bytes(self) -> int:
        """Return the size of all state files it refers to."""
        sizes = (f.size for operator in self.operators.values() for part in operator.subtasks for f in part.files)
        return sum(sizes) + sum(file.size for file in self.channels)


def with_names(manifest: Manifest, rename: Callable[[str], str]) -> Manifest:
    """Return the manifest with its state files under other names. They remember none of the files they were made of."""

    def renamed(subtask: SubtaskSnapshot) -> SubtaskSnapshot:
        sequence, items = subtask.sequence, subtask.operator_state
        if sequence is not None:
            sequence = tuple(replace(file, name=rename(file.name), covers=()) for file in sequence)
        if items is not None:
            items = replace(items, name=rename(items.name))
        return replace(subtask, sequence=sequence, operator_state=items)

    operators = {
        ident: replace(operator, subtasks=tuple(map(renamed, operator.subtasks)))
        for ident, operator in manifest.operators.items()
    }
    channels = tuple(replace(file, name=rename(file.name)) for file in manifest.channels)
    return replace(manifest, operators=operators, channels=channels)


@dataclass(frozen=True)
class EpochInput:
    """What an epoch reads, fixed before it runs: slices and what their enumerators expect, by source."""

    epoch: EpochId
    now_ms: int
    slices: dict[OperatorId, SlicePlan]
    #: Splits that were paused since the epoch before: that they were silent says nothing.
    held: dict[OperatorId, frozenset[str]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Return whether all sources end with it."""
        return all(slices.finished for slices in self.slices.values())


# --- manifest <-> JSON -----------------------------------------------------------------------------------------------


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of ``_metadata``."""
    content = {
        "job-id": manifest.job_id,
        "job-name": manifest.job_name,
        "checkpoint-id": manifest.checkpoint_id,
        "completed-at-ms": manifest.completed_at_ms,
        "seed": manifest.seed,
        "final": manifest.final,
        "wakeup-ms": manifest.wakeup_ms,
        "attempts": list(manifest.attempts),
        "operators": {ident: _operator_out(snapshot) for ident, snapshot in manifest.operators.items()},
        "sources": {ident: _source_out(snapshot) for ident, snapshot in manifest.sources.items()},
        "committables": manifest.committables,
        "accumulators": None if manifest.accumulators is None else base64.b64encode(manifest.accumulators).decode(),
        "savepoint": None if manifest.savepoint is None else _mark_out(manifest.savepoint),
    }
    if manifest.channels:
        content["channels"] = _channels_out(manifest.channels)
    return _seal("snapshot", content)


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Return the manifest in the bytes of ``_metadata``; ``name`` is used in errors only."""
    content = _unseal("snapshot", data, name)
    try:
        return Manifest(
            job_id=content["job-id"],
            job_name=content["job-name"],
            checkpoint_id=content["checkpoint-id"],
            completed_at_ms=content["completed-at-ms"],
            seed=content["seed"],
            final=content["final"],
            wakeup_ms=content["wakeup-ms"],
            attempts=tuple(content["attempts"]),
            operators={OperatorId(ident): _operator_in(raw) for ident, raw in content["operators"].items()},
            sources={OperatorId(ident): _source_in(raw) for ident, raw in content["sources"].items()},
            committables={OperatorId(ident): raw for ident, raw in content["committables"].items()},
            accumulators=base64.b64decode(raw) if (raw := content["accumulators"]) is not None else None,
            savepoint=_mark_in(raw) if (raw := content["savepoint"]) is not None else None,
            channels=_channels_in(raw) if (raw := content.get("channels")) is not None else (),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptStateError(f"{name} is damaged: {type(error).__name__} {error}.") from error


def _operator_out(snapshot: OperatorSnapshot) -> Json:
    return {
        "name": snapshot.name,
        "uid": snapshot.uid,
        "parallelism": snapshot.parallelism,
        "max-parallelism": snapshot.max_parallelism,
        "subtasks": [
            {
                "watermark": subtask.watermark,
                "chain": None if subtask.sequence is None else [_file_out(file) for file in subtask.sequence],
                "progress": None if subtask.progress is None else _progress_out(subtask.progress),
                "operator-state": None if subtask.operator_state is None else _items_out(subtask.operator_state),
            }
            for subtask in snapshot.subtasks
        ],
    }


def _operator_in(raw: Json) -> OperatorSnapshot:
    return OperatorSnapshot(
        raw["name"],
        raw["uid"],
        raw["parallelism"],
        raw["max-parallelism"],
        tuple(
            SubtaskSnapshot(
                subtask["watermark"],
                None if subtask["chain"] is None else tuple(_file_in(file) for file in subtask["chain"]),
                None if subtask["progress"] is None else _progress_in(subtask["progress"]),
                _items_in(raw_items) if (raw_items := subtask["operator-state"]) is not None else None,
            )
            for subtask in raw["subtasks"]
        ),
    )


def _file_out(file: StateFile) -> Json:
    return {
        "name": file.name,
        "size": file.size,
        "base": file.is_base,
        "covers": list(file.covers),
        "groups": file.groups,
    }


def _file_in(raw: Json) -> StateFile:
    groups = None if raw["groups"] is None else (raw["groups"][0], raw["groups"][1])
    return StateFile(raw["name"], raw["size"], raw["base"], tuple(raw["covers"]), groups)


def _items_out(file: OperatorStateFile) -> Json:
    states = [[shape.name, shape.mode.value, shape.items] for shape in file.states]
    return {"name": file.name, "size": file.size, "states": states}


def _items_in(raw: Json) -> OperatorStateFile:
    states = tuple(StateShape(name, Mode(mode), items) for name, mode, items in raw["states"])
    return OperatorStateFile(raw["name"], raw["size"], states)


def _mark_out(mark: SavepointMark) -> Json:
    return {"id": mark.ident, "format": mark.format.name, "home": mark.home, "drained": mark.drained}


def _mark_in(raw: Json) -> SavepointMark:
    return SavepointMark(raw["id"], SavepointFormatType[raw["format"]], raw["home"], raw["drained"])


def _channels_out(files: tuple[ChannelFile, ...]) -> Json:
    edges = sorted({(section.edge, section.partitioning) for file in files for section in file.sections})
    numbers = {edge: number for number, edge in enumerate(edges)}
    return {
        "edges": [[*edge, partitioning] for edge, partitioning in edges],
        "files": [
            {
                "name": file.name,
                "size": file.size,
                "sections": [
                    [
                        numbers[part.edge, part.partitioning], part.sender, part.receiver, part.place.value,
                        part.offset, part.length, part.checksum, part.buffers, part.payload_bytes,
                    ]
                    for part in file.sections
                ],
            }
            for file in files
        ],
    }  # fmt: skip


def _channels_in(raw: Json) -> tuple[ChannelFile, ...]:
    edges = [
        (EdgeId(OperatorId(source), OperatorId(target), index, tag, number), partitioning)
        for source, target, index, tag, number, partitioning in raw["edges"]
    ]

    def section_in(
        edge: int, sender: int, receiver: int, place: int, offset: int, length: int, checksum: int, buffers: int,
        payload_bytes: int,
    ) -> ChannelSection:  # fmt: skip
        return ChannelSection(
            *edges[edge], sender, receiver, QueueEnd(place), offset, length, checksum, buffers, payload_bytes
        )

    return tuple(
        ChannelFile(file["name"], file["size"], tuple(section_in(*fields) for fields in file["sections"]))
        for file in raw["files"]
    )


def _source_out(snapshot: SourceSnapshot) -> Json:
    return {
        "enumerator": snapshot.enumerator,
        "finished": snapshot.finished,
        "readers": snapshot.readers,
        "splits": {split: _progress_out(progress) for split, progress in snapshot.splits.items()},
    }


def _source_in(raw: Json) -> SourceSnapshot:
    splits = {split: _progress_in(progress) for split, progress in raw["splits"].items()}
    return SourceSnapshot(raw["enumerator"], splits, raw["finished"], tuple(map(tuple, raw["readers"])))


def _progress_out(progress: TimeProgress) -> Json:
    generator = None if progress.generator is None else base64.b64encode(progress.generator).decode()
    return [progress.watermark, progress.idle, progress.active_at_ms, generator]


def _progress_in(raw: Json) -> TimeProgress:
    watermark, idle, active_at_ms, generator = raw
    return TimeProgress(watermark, idle, active_at_ms, None if generator is None else base64.b64decode(generator))


# --- input of an epoch <-> JSON --------------------------------------------------------------------------------------


def encode_input(fixed: EpochInput) -> bytes:
    """Return the bytes of the file for the input of an epoch."""
    content = {
        "epoch": fixed.epoch,
        "now-ms": fixed.now_ms,
        "sources": {
            ident: {
                "finished": slices.finished,
                "backlog": slices.backlog,
                "wake-at-ms": slices.wake_at_ms,
                "waiting": slices.waiting,
                "held": sorted(fixed.held.get(ident, ())),
                "slices": [[s.split, s.start, s.stop, s.records, s.ends_split, s.detail] for s in slices.slices],
            }
            for ident, slices in fixed.slices.items()
        },
    }
    return _seal("plan", content)


def decode_input(data: bytes, name: str) -> EpochInput:
    """Return the input of an epoch from the bytes of its file."""
    content = _unseal("plan", data, name)
    try:
        return EpochInput(
            content["epoch"],
            content["now-ms"],
            {
                OperatorId(ident): SlicePlan(
                    tuple(Slice(*fields) for fields in raw["slices"]),
                    raw["finished"],
                    raw["backlog"],
                    raw["wake-at-ms"],
                    tuple(raw["waiting"]),
                )
                for ident, raw in content["sources"].items()
            },
            {OperatorId(ident): frozenset(raw["held"]) for ident, raw in content["sources"].items() if raw["held"]},
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptStateError(f"{name} is damaged: {type(error).__name__} {error}.") from error


# --- the line before the JSON ----------------------------------------------------------------------------------------

#: What the file is, version, checksum (CRC-32 of the JSON, eight hexadecimal digits), length of the JSON in bytes.
_SEAL = re.compile(rb"flott-([a-z]+) (\d{1,9}) ([0-9a-f]{8}) (\d{1,18})\n")


def _seal(kind: str, content: Json) -> bytes:
    body = json.dumps(content, separators=(",", ":")).encode()
    return f"flott-{kind} {VERSION} {crc32(body):08x} {len(body)}\n".encode() + body


def _unseal(kind: str, data: bytes, name: str) -> dict[str, Any]:
    seal = _SEAL.match(data)
    if seal is None or seal[1].decode() != kind:
        raise CorruptStateError(f"{name} is not a Flott {kind} or is damaged: it begins with {data[:32]!r}.")
    version, body = int(seal[2]), data[seal.end() :]
    if version != VERSION:
        age = "a later" if version > VERSION else "an earlier"
        raise CorruptStateError(
            f"{name} has format version {version}, of {age} version of Flott; this one reads version {VERSION}. Use the"
            " version of Flott that wrote it."
        )
    if len(body) != int(seal[4]):
        raise CorruptStateError(f"{name} is damaged: it holds {len(body)} bytes of JSON, expected {int(seal[4])}.")
    if crc32(body) != int(seal[3], 16):
        raise CorruptStateError(f"{name} is damaged: it does not match its checksum.")
    try:
        return dict(json.loads(body))
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptStateError(f"{name} is damaged: {error}.") from error
