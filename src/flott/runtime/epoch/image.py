"""The job image: the constant part of a job, pickled once and sent to workers. Made on the driver, used in tasks.

User functions are pickled by value if they must be (lambdas, closures, classes of the main script). Everything that can
be imported is pickled by name. Each vertex is a pickle of its own, because every subtask has its own functions.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from flott.common._ids import JobId
from flott.common._object_store_settings import ObjectStoreSettings
from flott.errors import UnserializableError
from flott.graph.edge_ids import EdgeId, edge_ids, may_be_overtaken
from flott.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex, VertexId
from flott.runtime.epoch.topology import Topology, lay_out
from flott.runtime.epoch.user_code import main_classes, refuse_unpicklable
from flott.runtime.logs.line import LogLimits
from flott.runtime.managed_state.backends.backend import BackendSettings
from flott.runtime.storage import Storage, initialize_object_stores


@dataclass(frozen=True)
class TaskSettings:
    """The job's settings that tasks need."""

    buffer_records: int = 1024
    object_reuse: bool = False  #: records that could be changed are handed over within a process, too
    input_memory_bytes: int = 256 << 20
    network_memory_bytes: int | None = None  #: of a slot of a pipelined job; None: by ``input_memory_bytes``
    job_parameters: dict[str, str] = field(default_factory=dict)
    backend: BackendSettings = field(default_factory=BackendSettings)
    logs: LogLimits = field(default_factory=LogLimits)
    object_stores: ObjectStoreSettings = field(default_factory=ObjectStoreSettings)  #: how tasks reach them


@dataclass(frozen=True)
class VertexShape:
    """What a sender needs to know about a receiver without loading its functions."""

    name: str
    parallelism: int
    max_parallelism: int
    keyed_operators: int = 0


@dataclass(frozen=True)
class EdgeShape:
    """What checkpoints need to know about an edge without loading its functions."""

    ident: EdgeId
    partitioning: str  #: its label
    may_be_overtaken: bool  #: by barriers


@dataclass(frozen=True)
class JobImage:
    """Everything constant about a running job, as it is sent to workers."""

    image_id: str  #: differs for every submission and every change of the graph; workers cache tasks under it
    job_id: JobId
    job_name: str
    topology: Topology
    shapes: dict[VertexId, VertexShape]
    edges_into: dict[VertexId, tuple[int, ...]]
    payloads: dict[VertexId, bytes]  #: pickled (vertex, incoming edges, outgoing edges)
    storage: Storage
    settings: TaskSettings
    import_path: tuple[str, ...]  #: the driver's sys.path, so that workers find the user's modules
    main_classes: bytes  #: classes of the main script, so that their instances can be pickled by name
    batch: bool = False  #: there is one epoch, and keyed operators see one key after the other
    edges: dict[int, EdgeShape] = field(default_factory=dict)

    def load_vertex(self, ident: VertexId) -> tuple[JobVertex, tuple[JobEdge, ...], tuple[JobEdge, ...]]:
        """Return a new copy of a vertex, with functions of its own."""
        return pickle.loads(self.payloads[ident])  # type: ignore[no-any-return]

    def keyed_operators_of(self, stage: int) -> int:
        """Return how many operators of a stage have keyed state. They share a task and its memory."""
        return sum(self.shapes[ident].keyed_operators for ident in self.topology.stages[stage].vertices)

    def prepare_process(self) -> None:
        """Make the user's modules and main classes known in a worker process, and how object stores are reached."""
        initialize_object_stores(self.settings.object_stores)
        for entry in self.import_path:
            if entry not in sys.path:
                sys.path.append(entry)
        main = sys.modules.get("__main__")
        if main is None:
            return
        for name, made in pickle.loads(self.main_classes).items():
            if not hasattr(main, name):
                setattr(main, name, made)


def make_image(
    graph: JobGraph, image_id: str, job_id: JobId, storage: Storage, settings: TaskSettings
) -> JobImage:
    """Pickle a job. Raises for functions that cannot be pickled, and names what they captured."""
    return JobImage(
        image_id=image_id,
        job_id=job_id,
        job_name=graph.name,
        topology=lay_out(graph),
        shapes={v.id: _shape_of(v) for v in graph.vertices},
        edges_into={v.id: tuple(edge.index for edge in graph.edges_into(v.id)) for v in graph.vertices},
        payloads={v.id: _pickle_vertex(graph, v) for v in graph.vertices},
        storage=storage,
        settings=settings,
        import_path=tuple(os.path.abspath(entry) for entry in sys.path if entry),
        main_classes=bytes(cloudpickle.dumps(main_classes(), protocol=5)),
        batch=graph.batch,
        edges=edge_shapes(graph),
    )


def edge_shapes(graph: JobGraph) -> dict[int, EdgeShape]:
    """Return the shapes of all edges, by their index."""
    idents = edge_ids(graph)
    return {e.index: EdgeShape(idents[e.index], e.partitioning.label, may_be_overtaken(e)) for e in graph.edges}


def _shape_of(vertex: JobVertex) -> VertexShape:
    keyed = sum(operator.node.is_keyed for operator in vertex.operators)
    return VertexShape(vertex.name, vertex.parallelism, vertex.max_parallelism, keyed)


def _pickle_vertex(graph: JobGraph, vertex: JobVertex) -> bytes:
    try:
        content = (vertex, graph.edges_into(vertex.id), graph.edges_out_of(vertex.id))
        return bytes(cloudpickle.dumps(content, protocol=5))
    except Exception as error:
        for operator in vertex.operators:
            _refuse_unpicklable(operator)
        for edge in graph.edges_out_of(vertex.id):
            _refuse(vertex.operators[edge.source_operator], edge.partitioning)
        raise UnserializableError(f"The job cannot be sent to workers: {error}") from error


def _refuse_unpicklable(operator: ChainedOperator) -> None:
    _refuse(operator, operator.node.spec)
    for key in operator.node.keys:
        _refuse(operator, key)


def _refuse(operator: ChainedOperator, part: Any) -> None:
    refuse_unpicklable(operator.label, operator.node.source_line, part)
