"""Makes the part of a job's view that follows from its graph: vertices, operators, inputs. Pure. Driver side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import md5

from flott.graph.guarantees import guarantee_of
from flott.graph.job_graph import ChainedOperator, JobGraph, JobVertex, VertexId
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SourceSpec, TimestampsSpec
from flott.graph.transformations import DEFAULT_SLOT_SHARING_GROUP
from flott.runtime.jobmanager.views.job_view import ChainedOperatorView, InputView

#: Characters that separate parts of metric names, and are replaced within a part.
_SEPARATORS = str.maketrans(" .:,", "____")


@dataclass(frozen=True)
class VertexOutline:
    """A vertex without its metrics."""

    id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[ChainedOperatorView, ...]
    inputs: tuple[InputView, ...]
    edges: tuple[int, ...]  #: the index of each input's edge in the job graph
    scopes: dict[OperatorId, str]  #: names of the operators in metric names
    head: OperatorId
    is_source: bool
    has_event_time: bool
    slot_sharing_group: str


def outline(graph: JobGraph) -> tuple[VertexOutline, ...]:
    """Return all vertices, inputs before consumers."""
    timed: set[VertexId] = set()
    outlined = []
    for vertex in graph.vertices:
        edges = graph.edges_into(vertex.id)
        if any(edge.source in timed for edge in edges) or _makes_time(vertex):
            timed.add(vertex.id)
        scopes = dict(zip((op.id for op in vertex.operators), metric_scopes(op.node.name for op in vertex.operators),
                          strict=True))  # fmt: skip
        outlined.append(
            VertexOutline(
                vertex.id,
                vertex.name,
                vertex.parallelism,
                vertex.max_parallelism,
                operators=tuple(
                    ChainedOperatorView(
                        op.id, op.node.name, op.node.uid, op.node.kind, op.node.description or op.node.name,
                        op.node.parallelism, op.node.source_line, scopes[op.id], _guarantee(op),
                    )
                    for op in vertex.operators
                ),
                inputs=tuple(InputView(edge.source, edge.partitioning.label, edge.input_index) for edge in edges),
                edges=tuple(edge.index for edge in edges),
                scopes=scopes,
                head=vertex.head.id,
                is_source=vertex.is_source,
                has_event_time=vertex.id in timed,
                slot_sharing_group=_group_id(vertex.head.node.slot_sharing_group),
            )
        )  # fmt: skip
    return tuple(outlined)


def _guarantee(operator: ChainedOperator) -> str:
    found = guarantee_of(operator.node)
    return found.value if found is not None else ""


def _makes_time(vertex: JobVertex) -> bool:
    """Return whether timestamps and watermarks are assigned here."""
    return any(
        operator.node.spec.strategy.generator_factory is not None or operator.node.spec.strategy.ingestion_time
        for operator in vertex.operators
        if isinstance(operator.node.spec, SourceSpec | TimestampsSpec)
    )


def _group_id(name: str) -> str:
    """Return the id of a slot sharing group: 32 hexadecimal digits, as in Flink."""
    return "0" * 32 if name == DEFAULT_SLOT_SHARING_GROUP else md5(name.encode(), usedforsecurity=False).hexdigest()


def metric_scope(name: str) -> str:
    """Return the name of an operator as a part of a metric's name.

    >>> metric_scope("Source: numbers")
    'Source__numbers'
    """
    return name.translate(_SEPARATORS)


def metric_scopes(names: Iterable[str]) -> list[str]:
    """Return the same for all operators of a chain, with numbers that make equal names different.

    >>> metric_scopes(["Map", "Map", "Sink: Print"])
    ['Map', 'Map_2', 'Sink__Print']
    """
    scopes: list[str] = []
    for name in names:
        scope, number = metric_scope(name), 2
        candidate = scope
        while candidate in scopes:
            candidate, number = f"{scope}_{number}", number + 1
        scopes.append(candidate)
    return scopes
