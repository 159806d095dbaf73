"""The job image: the constant part of a job as it travels to workers, pickled once. Made on the driver, used in tasks.

User functions travel by value where they must (lambdas, closures, classes of the main script); everything importable
travels by name. Each vertex is a pickle of its own, because every subtask gets its own copy of its functions.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from flott.errors import UnserializableError
from flott.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex, VertexId
from flott.runtime.epoch.topology import Topology, lay_out
from flott.runtime.state.backend import BackendSettings
from flott.runtime.storage import LocalStorage


@dataclass(frozen=True)
class TaskSettings:
    """The job's settings that tasks need."""

    buffer_records: int = 1024
    input_memory_bytes: int = 256 << 20
    job_parameters: dict[str, str] = field(default_factory=dict)
    backend: BackendSettings = field(default_factory=BackendSettings)


@dataclass(frozen=True)
class VertexShape:
    """What a sender needs to know about a receiver without loading its functions."""

    name: str
    parallelism: int
    max_parallelism: int
    keyed_operators: int = 0


@dataclass(frozen=True)
class JobImage:
    """Everything constant about a running job, as it travels to workers."""

    image_id: str  #: different for every submission and every change of the graph: names a worker's cached tasks
    job_id: str
    job_name: str
    topology: Topology
    shapes: dict[VertexId, VertexShape]
    edges_into: dict[VertexId, tuple[int, ...]]
    payloads: dict[VertexId, bytes]  #: pickled (vertex, incoming edges, outgoing edges)
    storage: LocalStorage
    settings: TaskSettings
    import_path: tuple[str, ...]  #: the driver's sys.path, so that workers find the user's modules
    main_classes: bytes  #: classes of the main script, so that their instances can be pickled by name
    batch: bool = False  #: there is one epoch, and keyed operators see one key after the other

    def load_vertex(self, ident: VertexId) -> tuple[JobVertex, tuple[JobEdge, ...], tuple[JobEdge, ...]]:
        """A fresh copy of a vertex: its functions are nobody else's."""
        return pickle.loads(self.payloads[ident])  # type: ignore[no-any-return]

    def keyed_operators_of(self, stage: int) -> int:
        """How many operators of a stage keep state by key: they share a task, and its memory."""
        return sum(self.shapes[ident].keyed_operators for ident in self.topology.stages[stage].vertices)

    def prepare_process(self) -> None:
        """Make the user's modules and main classes known in a worker process."""
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
    graph: JobGraph, image_id: str, job_id: str, storage: LocalStorage, settings: TaskSettings
) -> JobImage:
    """Pickle a job; refuses functions that cannot travel, naming what they captured."""
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
        import_path=tuple(entry for entry in sys.path if entry),
        main_classes=_main_classes(),
        batch=graph.batch,
    )


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
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        culprit = _culprit(part, "", 0, set()) or "something it refers to"
        raise UnserializableError(
            f"The function of operator {operator.label} ({operator.node.source_line}) cannot be sent to a worker:"
            f" it captures {culprit} ({type(error).__name__}: {error}). Create such objects in the function's open()"
            " instead, or pass the plain data they are made from."
        ) from error


def _culprit(value: Any, path: str, depth: int, seen: set[int]) -> str | None:
    """The innermost captured object that cannot be pickled, in words."""
    if depth > 6 or id(value) in seen:
        return None
    seen.add(id(value))
    for name, part in _captured(value):
        try:
            cloudpickle.dumps(part)
        except Exception:
            where = f"{path}.{name}" if path else name
            inside = where if depth else ""  # the parts of a spec are named by us, what is in them by the user
            return _culprit(part, inside, depth + 1, seen) or f"{where!r}, an object of type {type(part).__qualname__}"
    return None


def _captured(value: Any) -> list[tuple[str, Any]]:
    """What an object brings along when it is pickled by value: closure cells, globals it uses, attributes, items."""
    found: list[tuple[str, Any]] = []
    function = getattr(value, "__func__", value)
    if code := getattr(function, "__code__", None):
        cells = getattr(function, "__closure__", None) or ()
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                found.append((name, cell.cell_contents))
            except ValueError:
                continue
        known = getattr(function, "__globals__", {})
        found += [(name, known[name]) for name in code.co_names if name in known]
        if (bound := getattr(value, "__self__", None)) is not None:
            found.append(("self", bound))
    elif isinstance(value, dict):
        found += [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple | set):
        found += [(str(index), item) for index, item in enumerate(value)]
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        found += list(vars(value).items())
    return found


def _main_classes() -> bytes:
    """The classes defined in the main script, by name. Those that cannot be pickled are left out."""
    main = sys.modules.get("__main__")
    classes = {
        name: value
        for name, value in vars(main).items()
        if isinstance(value, type) and value.__module__ == "__main__" and value.__qualname__ == name
    }
    try:
        return bytes(cloudpickle.dumps(classes, protocol=5))
    except Exception:
        picklable = {}
        for name, value in classes.items():
            try:
                cloudpickle.dumps(value)
            except Exception:
                continue
            picklable[name] = value
        return bytes(cloudpickle.dumps(picklable, protocol=5))
