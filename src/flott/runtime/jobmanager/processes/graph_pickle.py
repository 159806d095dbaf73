"""A stream graph with its functions as bytes, from the client's process to the job's. Client and job process.

Classes of the client's main script travel by value, and the job's process gets a ``__main__`` that holds them: records
and state refer to them by name, as they would in the client's own process.

    flott graph 1 <Python> <Flott>\n<pickle of (classes of the main script, StreamGraph)>

The first line is the envelope: the version of this form, and the versions that wrote it. Compiled functions are
understood by one minor version of Python only. ``former_pickles`` says which classes of Flott are inside, and finds
those that have moved since.
"""

from __future__ import annotations

import sys
from types import ModuleType

import cloudpickle

import flott
from flott.errors import SubmissionError, UnserializableError
from flott.graph.stream_graph import StreamGraph, StreamNode
from flott.runtime.epoch.user_code import main_classes, refuse_unpicklable
from flott.runtime.jobmanager import former_pickles

_MAGIC = b"flott graph 1"


def pickle_graph(graph: StreamGraph) -> bytes:
    """Pickle the graph and the main script's classes; refuse a function that cannot travel, naming what it captured."""
    try:
        # In one pickle, so that the classes the functions use are the ones that are found by name.
        content = cloudpickle.dumps((main_classes(), graph), protocol=5)
    except Exception as error:
        for node in graph.nodes:
            _refuse_unpicklable(graph, node)
        raise UnserializableError(f"The job cannot be sent to another process: {error}") from error
    return b"\n".join((_header(), bytes(content)))


def unpickle_graph(data: bytes) -> StreamGraph:
    """Return the graph, in a process that runs only this job: its ``__main__`` becomes that of the main script."""
    header, _, content = data.partition(b"\n")
    if not header.startswith(_MAGIC):
        raise SubmissionError("This is not a job that Flott has pickled.")
    if header.split()[3:4] != _header().split()[3:4]:
        raise SubmissionError(
            f"The job was made with {_words(header)}, and is to run with {_words(_header())}: functions can be read by"
            " the same minor version of Python only. Submit it with that version, or start the cluster with the other."
        )
    _replace_main()
    try:
        classes, graph = former_pickles.loads(content)
    except ModuleNotFoundError as error:
        raise SubmissionError(
            f"The job uses the module {error.name!r}, which is not installed where it runs. Send it along with"
            " python.files or python.requirements, or install it there."
        ) from error
    except Exception as error:
        raise SubmissionError(
            f"The job, made with {_words(header)}, cannot be read with {_words(_header())}: {type(error).__name__}:"
            f" {error}"
        ) from error
    vars(sys.modules["__main__"]).update(classes)
    if not isinstance(graph, StreamGraph):
        raise SubmissionError(f"This is not a job but {type(graph).__name__}.")
    return graph


def _header() -> bytes:
    return b"%s %d.%d %s" % (_MAGIC, *sys.version_info[:2], flott.__version__.encode())


def _words(header: bytes) -> str:
    _, _, _, python, version = header.decode(errors="replace").split(maxsplit=4)
    return f"Python {python} and Flott {version}"


_own_main: list[ModuleType] = []


def _replace_main() -> None:
    """Replace the module ``__main__``, so that the user's names do not meet those of this process."""
    _own_main.append(sys.modules["__main__"])
    sys.modules["__main__"] = ModuleType("__main__")


def _refuse_unpicklable(graph: StreamGraph, node: StreamNode) -> None:
    label = f"{node.name!r} (uid {node.uid!r})" if node.uid else f"{node.name!r}"
    partitionings = [edge.partitioning for edge in graph.edges_out_of(node.id)]
    for part in (node.spec, *node.keys, *partitionings):
        refuse_unpicklable(label, node.source_line, part)
