"""Operator identity: what ties an operator to its state across restarts and changed programs.

An operator with a ``uid`` is identified by it alone. Without one, the id is a hash of the operator's place in the graph
(its kind, its position and its inputs' ids), so inserting an operator upstream changes it, as in Flink. Changing a
function, a name or a parallelism does not.
"""

from __future__ import annotations

import hashlib
import re
from typing import NewType

from flott.errors import ProgramError
from flott.graph.stream_graph import NodeId, StreamGraph, StreamNode

OperatorId = NewType("OperatorId", str)  #: 32 lower-case hex digits


def operator_ids(graph: StreamGraph) -> dict[NodeId, OperatorId]:
    """Return the identity of every node of the graph."""
    ids: dict[NodeId, OperatorId] = {}
    seen: dict[OperatorId, int] = {}
    for node in graph.nodes:
        ident = _explicit_id(node)
        if ident is None:
            inputs = [f"{ids[edge.source]}:{edge.input_index}:{edge.side_tag!r}" for edge in graph.edges_into(node.id)]
            structure = "|".join([type(node.spec).__name__, *inputs])
            # Two nodes of the same structure (two equal branches) differ by their order in the program.
            twin = seen.get(_digest(structure), 0)
            seen[_digest(structure)] = twin + 1
            ident = _digest(f"{structure}#{twin}")
        ids[node.id] = ident
    _refuse_shared_ids(graph, ids)
    return ids


def id_of_uid(uid: str) -> OperatorId:
    """Return the identity that a uid stands for."""
    return _digest(f"uid:{uid}")


def id_of_uid_hash(uid_hash: str, name: str) -> OperatorId:
    """Return the identity that the program sets directly, in the form of Flink's logs and checkpoints."""
    if not re.fullmatch("[0-9a-fA-F]{32}", str(uid_hash)):
        raise ProgramError(f"set_uid_hash() of {name!r} takes 32 hexadecimal digits, found {uid_hash!r}.")
    return OperatorId(uid_hash.lower())


def _explicit_id(node: StreamNode) -> OperatorId | None:
    if node.uid_hash is not None:
        return id_of_uid_hash(node.uid_hash, node.name)
    return id_of_uid(node.uid) if node.uid is not None else None


def _refuse_shared_ids(graph: StreamGraph, ids: dict[NodeId, OperatorId]) -> None:
    """Refuse two equal ids, which only a uid hash can cause: their operators would share their state."""
    owners: dict[OperatorId, StreamNode] = {}
    for node in graph.nodes:
        other = owners.setdefault(ids[node.id], node)
        if other is not node:
            raise ProgramError(
                f"{other.name!r} ({other.source_line}) and {node.name!r} ({node.source_line}) have the same identity"
                f" {ids[node.id]}, so they would share their state. Give each its own with set_uid_hash() or uid()."
            )


def _digest(text: str) -> OperatorId:
    return OperatorId(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
