"""Transformations -> StreamGraph: resolve virtual steps onto edges, settle parallelism, refuse what cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flott.errors import ProgramError
from flott.graph.connection import connect
from flott.graph.partitioning import Partitioning
from flott.graph.specs import DEAD_LETTERS, SinkSpec, SourceSpec
from flott.graph.stream_graph import NodeId, StreamGraph, StreamNode
from flott.graph.transformations import (
    DEFAULT_SLOT_SHARING_GROUP,
    Operation,
    Partition,
    Program,
    SideOutput,
    Transformation,
    TransformationId,
    Union,
)

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class Defaults:
    """The environment's settings that fill in what a transformation leaves open."""

    job_name: str
    parallelism: int
    max_parallelism: int
    chaining_enabled: bool = True
    auto_generated_uids: bool = True  #: whether an operator may go without a uid
    runtime_mode: str = "STREAMING"  #: the name of a RuntimeExecutionMode
    #: False: sources write no dead letters and acknowledge nothing, because the job only looks at their records.
    side_effects: bool = True


@dataclass(frozen=True)
class _Upstream:
    """A physical producer seen through the virtual steps between it and its consumer."""

    node: TransformationId
    partitioning: Partitioning | None = None
    side_tag: str | None = None


#: For each step the physical producers behind it: what an operator that reads the step reads.
_Producers = Mapping[TransformationId, tuple[_Upstream, ...]]


def translate(program: Program, defaults: Defaults) -> StreamGraph:
    """Build the stream graph of everything in the program that leads to a sink."""
    reachable = _reachable_from_sinks(program)
    steps = [t for t in program if t.id in reachable]
    steps = [*steps, *_dead_letter_sinks(steps)] if defaults.side_effects else [_muted(t) for t in steps]
    producers = _producers(steps)
    groups = _slot_sharing_groups(steps, producers)
    side_types = _side_types(steps, producers)
    by_id: dict[NodeId, StreamNode] = {}
    for t in steps:
        if isinstance(t.step, Operation):
            read = {up.node for source in t.inputs for up in producers[source]}
            followed = _followed_parallelism(t.step, [by_id[NodeId(ident)] for ident in read])
            by_id[NodeId(t.id)] = _node(t, t.step, groups[t.id], side_types.get(t.id, {}), defaults, followed)
    nodes = tuple(by_id.values())
    edges = tuple(
        connect(by_id[NodeId(up.node)], by_id[NodeId(t.id)], index, up.partitioning, up.side_tag)
        for t in steps
        if isinstance(t.step, Operation)
        for index, source in enumerate(t.inputs)
        for up in producers[source]
    )
    _refuse_duplicate_uids(nodes)
    if not defaults.auto_generated_uids:
        _refuse_missing_uids([by_id[NodeId(t.id)] for t in steps if isinstance(t.step, Operation) and not t.implicit])
    return StreamGraph(defaults.job_name, nodes, edges, defaults.chaining_enabled, _is_batch(nodes, defaults))


def _reachable_from_sinks(program: Program) -> set[TransformationId]:
    """Return the ids that lead to a sink. A step whose output is not consumed is left out."""
    pending = [t.id for t in program if t.is_sink]
    if not pending:
        raise ProgramError(
            "The program has no sink, so nothing would be computed. End at least one stream with print(), sink_to(...),"
            " add_sink(...) or execute_and_collect()."
        )
    seen: set[TransformationId] = set()
    while pending:
        ident = pending.pop()
        if ident not in seen:
            seen.add(ident)
            pending.extend(program[ident].inputs)
    return seen


def _dead_letter_sinks(steps: list[Transformation]) -> list[Transformation]:
    """Return the sinks of sources that keep records which cannot be decoded. They are side outputs of their source, so
    they have the guarantee of every other sink. The program does not contain them: they stay when its sinks go."""
    added: list[Transformation] = []
    last = max(t.id for t in steps)
    for t in steps:
        if not (isinstance(t.step, Operation) and isinstance(t.step.spec, SourceSpec)):
            continue
        sink = t.step.spec.source.on_error.dead_letters
        if sink is not None:
            tapped, written = TransformationId(last + 1), TransformationId(last + 2)
            last = written
            tag = Transformation(tapped, "dead letters", SideOutput(DEAD_LETTERS), (t.id,), t.source_line)
            name = f"Dead letters of {t.name.removeprefix('Source: ')}"
            uid = f"{t.uid}-dead-letters" if t.uid is not None else None
            write = Transformation(
                written, name, Operation(SinkSpec(sink)), (tapped,), t.source_line,
                uid=uid, parallelism=t.parallelism, max_parallelism=t.max_parallelism, implicit=True,
            )  # fmt: skip
            added += [tag, write]
    return added


def _muted(t: Transformation) -> Transformation:
    """Return a source that acknowledges nothing; any other step as it is."""
    if isinstance(t.step, Operation) and isinstance(t.step.spec, SourceSpec):
        return replace(t, step=replace(t.step, spec=replace(t.step.spec, acknowledges=False)))
    return t


def _producers(steps: Iterable[Transformation]) -> _Producers:
    """Resolve the virtual steps, inputs first. Of two partitionings the one nearer to the consumer counts."""
    behind: dict[TransformationId, tuple[_Upstream, ...]] = {}
    for t in steps:
        inputs = tuple(up for source in t.inputs for up in behind[source])
        match t.step:
            case Operation():
                behind[t.id] = (_Upstream(t.id),)
            case Union():
                behind[t.id] = inputs
            case Partition(partitioning):
                behind[t.id] = tuple(replace(up, partitioning=partitioning) for up in inputs)
            case SideOutput(tag_id, _):
                behind[t.id] = tuple(replace(up, side_tag=tag_id) for up in inputs)
    return behind


def _slot_sharing_groups(steps: Iterable[Transformation], producers: _Producers) -> Mapping[TransformationId, str]:
    """Apply Flink's rule: an operator's own group, or that of its inputs if they share one, otherwise the default."""
    groups: dict[TransformationId, str] = {}
    for t in steps:
        inherited = {groups[up.node] for source in t.inputs for up in producers[source]}
        common = inherited.pop() if len(inherited) == 1 else DEFAULT_SLOT_SHARING_GROUP
        groups[t.id] = t.slot_sharing_group or common
    return groups


def _side_types(
    steps: Iterable[Transformation], producers: _Producers
) -> Mapping[TransformationId, Mapping[str, TypeInformation]]:
    """Return the types that tags declare, by the operators that emit them. As in Flink, a tag has one type."""
    types: dict[TransformationId, dict[str, TypeInformation]] = {}
    for t in steps:
        if isinstance(t.step, SideOutput) and t.step.type_info is not None:
            for up in producers[t.id]:
                declared = types.setdefault(up.node, {}).setdefault(t.step.tag_id, t.step.type_info)
                if declared != t.step.type_info:
                    raise ProgramError(
                        f"The side output {t.step.tag_id!r} was asked for with the type {declared!r} and, at"
                        f" {t.source_line}, with {t.step.type_info!r}. Make one OutputTag and use it in both places."
                    )
    return types


def _node(
    t: Transformation,
    operation: Operation,
    group: str,
    side_types: Mapping[str, TypeInformation],
    defaults: Defaults,
    followed: int | None,
) -> StreamNode:
    max_parallelism = t.max_parallelism or defaults.max_parallelism
    own_parallelism = t.parallelism or _preferred_parallelism(operation) or followed
    parallelism = own_parallelism or min(defaults.parallelism, max_parallelism)
    if parallelism > max_parallelism:
        raise ProgramError(
            f"Operator {t.name!r} ({t.source_line}) has parallelism {parallelism}, above its maximum of"
            f" {max_parallelism}. Lower the parallelism, or raise the maximum with set_max_parallelism({parallelism})"
            " before the job has state."
        )
    return StreamNode(
        id=NodeId(t.id),
        name=t.name,
        spec=operation.spec,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        fixed_parallelism=own_parallelism is not None,
        keys=operation.keys,
        output_type=operation.output_type,
        side_types=tuple(side_types.items()),
        uid=t.uid,
        uid_hash=t.uid_hash,
        description=t.description,
        slot_sharing_group=group,
        chaining=t.chaining,
        source_line=t.source_line,
    )


def _followed_parallelism(operation: Operation, producers: list[StreamNode]) -> int | None:
    """Return the parallelism that a sink takes from the one operator with a fixed parallelism that it reads, if any."""
    if not (isinstance(operation.spec, SinkSpec) and operation.spec.sink.follows_input and len(producers) == 1):
        return None
    (producer,) = producers
    return producer.parallelism if producer.fixed_parallelism else None


def _preferred_parallelism(operation: Operation) -> int | None:
    return operation.spec.source.preferred_parallelism if isinstance(operation.spec, SourceSpec) else None


def _is_batch(nodes: tuple[StreamNode, ...], defaults: Defaults) -> bool:
    """Return whether the program runs as a batch: set, or chosen because all of its sources are bounded."""
    if defaults.runtime_mode == "STREAMING":
        return False
    endless = [n for n in nodes if isinstance(n.spec, SourceSpec) and n.spec.source.boundedness.name != "BOUNDED"]
    if endless and defaults.runtime_mode == "BATCH":
        listed = ", ".join(f"{node.name!r} ({node.source_line})" for node in endless)
        raise ProgramError(
            f"A program in BATCH mode ends, and so must its sources; unbounded: {listed}. Bound them, or set"
            " execution.runtime-mode to STREAMING, or to AUTOMATIC to have it chosen by the sources."
        )
    return not endless


def _refuse_duplicate_uids(nodes: tuple[StreamNode, ...]) -> None:
    seen: dict[str, StreamNode] = {}
    for node in nodes:
        if node.uid is None:
            continue
        if other := seen.get(node.uid):
            raise ProgramError(
                f"The uid {node.uid!r} is used by {other.name!r} ({other.source_line}) and {node.name!r}"
                f" ({node.source_line}). A uid names one operator's state: give each its own."
            )
        seen[node.uid] = node


def _refuse_missing_uids(nodes: Iterable[StreamNode]) -> None:
    missing = [node for node in nodes if node.uid is None and node.uid_hash is None]
    if missing:
        listed = ", ".join(f"{node.name!r} ({node.source_line})" for node in missing)
        raise ProgramError(
            f"pipeline.auto-generate-uids is off, and these operators have no uid: {listed}. Call uid(...) on each,"
            " or allow generated uids."
        )
