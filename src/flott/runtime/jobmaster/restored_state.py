"""The part of a snapshot that a program can continue from, and why it cannot restore the rest. Driver side.

State is tied to an operator by the operator's identity, its uid or its place in the program. State without an operator
is refused, as in Flink, unless the user says that it may be left behind: it would be lost without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from flott.errors import ProgramError
from flott.graph.edge_ids import EdgeId
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.channel_starts import unclaimed_edges, without_edges
from flott.runtime.epoch.redistribute import redistribute
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.storage import Storage

log = logging.getLogger("flott.job")

#: How many operators of the program a message lists at most.
SHOWN = 5


@dataclass(frozen=True)
class Unclaimed:
    """An operator that the program does not have, and what the snapshot holds of it."""

    ident: OperatorId
    operator: OperatorSnapshot
    what: tuple[str, ...]

    def __str__(self) -> str:
        identity = f"uid {self.operator.uid!r}" if self.operator.uid else f"no uid, id {self.ident}"
        return f"operator {self.operator.name!r} ({identity}): {', '.join(self.what)}"

    @property
    def remedy(self) -> str:
        """Return the call that would make an operator continue it."""
        return f"uid({self.operator.uid!r})" if self.operator.uid else f"set_uid_hash({self.ident!r})"


def restorable(manifest: Manifest, graph: JobGraph, storage: Storage, *, ignore_unclaimed: bool) -> Manifest:
    """Return the manifest without what no operator of the program claims. Refuses unclaimed state unless it may be
    ignored, and state that an operator of the program cannot restore in any case."""
    for ident, snapshot in manifest.operators.items():
        if ident in graph.operators:
            redistribute(snapshot, graph.operators[ident])
    unclaimed = list(_unclaimed(manifest, graph, storage))
    if unclaimed and not ignore_unclaimed:
        raise ProgramError(_refusal(unclaimed, manifest, graph))
    for left in unclaimed:
        log.warning("Left behind, because the program does not have its operator: the state of %s.", left)
    unclaimed_channels = unclaimed_edges(manifest, graph)
    if unclaimed_channels and not ignore_unclaimed:
        raise ProgramError(_refusal_of_edges(unclaimed_channels, manifest))
    for edge in unclaimed_channels:
        log.warning("Left behind, because the program does not have this edge: records %s.", _ends(edge, manifest))
    return replace(
        manifest,
        operators={ident: value for ident, value in manifest.operators.items() if ident in graph.operators},
        sources={ident: value for ident, value in manifest.sources.items() if ident in graph.operators},
        committables={ident: value for ident, value in manifest.committables.items() if ident in graph.operators},
        channels=without_edges(manifest.channels, unclaimed_channels),
    )


def _unclaimed(manifest: Manifest, graph: JobGraph, storage: Storage) -> Iterator[Unclaimed]:
    for ident, snapshot in manifest.operators.items():
        if ident not in graph.operators and (what := tuple(_held(ident, snapshot, manifest, storage))):
            yield Unclaimed(ident, snapshot, what)


def _held(ident: OperatorId, snapshot: OperatorSnapshot, manifest: Manifest, storage: Storage) -> Iterator[str]:
    """Yield what the snapshot holds of an operator, in words."""
    keyed: dict[str, None] = {}
    for name in dict.fromkeys(file.name for subtask in snapshot.subtasks for file in subtask.sequence or ()):
        with open_state_file(storage, name) as reader:
            keyed |= dict.fromkeys(f"{table.kind} state {table.name!r}" for table in reader.tables)
    yield from keyed
    files = [subtask.operator_state for subtask in snapshot.subtasks if subtask.operator_state is not None]
    yield from dict.fromkeys(f"{shape.mode.value} state {shape.name!r}" for file in files for shape in file.states)
    if ident in manifest.sources and not manifest.sources[ident].finished:
        yield "how far its input was read"
    if manifest.committables.get(ident):
        yield "output that may not be visible yet"


def _refusal_of_edges(edges: list[EdgeId], manifest: Manifest) -> str:
    listed = "; ".join(_ends(edge, manifest) for edge in edges[:SHOWN])
    return (
        f"Checkpoint {manifest.checkpoint_id} is unaligned: it holds records that were on their way {listed}. This"
        f" program does not have {'this edge' if len(edges) == 1 else 'these edges'}, or has it as a forward edge or"
        " inside a chain. Continue with the former program and parallelism and take a savepoint, which holds no such"
        " records, or leave them behind by setting execution.state-recovery.ignore-unclaimed-state to true."
    )


def _ends(edge: EdgeId, manifest: Manifest) -> str:
    names = [manifest.operators[end].name if end in manifest.operators else end for end in (edge.source, edge.target)]
    return f"from {names[0]!r} to {names[1]!r}"


def _refusal(unclaimed: list[Unclaimed], manifest: Manifest, graph: JobGraph) -> str:
    snapshot = "checkpoint" if manifest.savepoint is None else "savepoint"
    listed = "; ".join(f"state of {left}" for left in unclaimed)
    unknown = [graph.operators[ident].node for ident in graph.operators.keys() - manifest.operators.keys()]
    new = sorted(f"{node.name!r} ({node.source_line})" for node in unknown)
    text = (
        f"The {snapshot} holds {listed}. This program does not have {'it' if len(unclaimed) == 1 else 'them'}. Give the"
        f" operator that continues it the same uid, by {unclaimed[0].remedy}, or leave the state behind by setting"
        " execution.state-recovery.ignore-unclaimed-state to true."
    )
    if new:
        more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
        text += f" Operators of the program that the {snapshot} does not know: {', '.join(new[:SHOWN])}{more}."
    return text
