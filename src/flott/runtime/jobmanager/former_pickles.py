"""Reads pickles that an earlier version of Flott wrote: classes of Flott are found where they are now. Both processes.

Two kinds of files of a JobManager are, or were, pickles. ``graph.pickle`` holds the functions of a program, which can
only be pickled. The classes of Flott in it are the graph (``flott.graph``: stream graph, specs, partitioning,
transformations), the API's vocabulary (``flott.common``, ``flott.datastream``: functions, connectors, watermark
strategies, types), and the stand-in for a sink of the program (``RemoteSink``). Their module paths are a promise: a
class that moves gets a row in ``_MOVED``. ``end.pickle``, how a job ended, is JSON since then (``ended_job_file``).
"""

from __future__ import annotations

import io
import pickle
from typing import Any

#: Modules whose classes may be in a pickle, by the path they had when it was written.
_MOVED = {
    "flott.runtime.cluster.job_view": "flott.runtime.jobmanager.views.job_view",
    "flott.runtime.cluster.result_spool": "flott.runtime.jobmanager.processes.result_spool",
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(_MOVED.get(module, module), name)


def loads(data: bytes) -> Any:
    """Return the object that was pickled, by this or an earlier version."""
    return _Unpickler(io.BytesIO(data)).load()
