"""The process of an inspector: imports the classes of one job, and answers questions until none come. Inspector side.

    python -m flott.runtime.jobmanager.inspection.inspector FD

The first message is the subject, each further one a question; the answer is JSON, ``{"answer": …}`` or ``{"error": …,
"text": …}``. The process runs with low priority and bounded memory. A question that takes too long ends it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from flott.common.configuration import Configuration
from flott.errors import FlottError, StateError, StorageError
from flott.graph.stream_graph import StreamGraph
from flott.runtime.job_files import place_files
from flott.runtime.jobmanager.inspection.preview import preview
from flott.runtime.jobmanager.inspection.questions import InspectionSubject, PreviewRecords, Question
from flott.runtime.jobmanager.inspection.state_answers import StateAnswers
from flott.runtime.jobmanager.processes.graph_pickle import unpickle_graph
from flott.runtime.storage import initialize_object_stores

#: The process ends after so long without a question.
IDLE_SECONDS = 60.0
#: A question that takes so long ends the process. The JobManager gives up earlier; this is for when it is gone.
ALARM_SECONDS = 180
#: The process may use so much address space.
MEMORY_BYTES = 4 << 30
#: How much more important other processes are.
NICENESS = 10


class Inspector:
    """Answers questions about one job."""

    def __init__(self, subject: InspectionSubject):
        self._subject = subject
        self._configuration = Configuration.of(subject.configuration)
        initialize_object_stores(self._configuration)
        self._states = StateAnswers(subject.checkpoint_directory, time.monotonic)
        self._graph: StreamGraph | None = None
        self._unreadable: Exception | None = None
        try:
            self._graph = self._import_job()
        except Exception as error:  # state with declared types can be read without the job's classes
            self._unreadable = error

    def answer(self, question: Question) -> dict[str, Any]:
        """Return the answer to a question as plain data."""
        if not isinstance(question, PreviewRecords):
            return self._states.answer(question)
        if self._graph is None:
            reason = self._unreadable or "its program is not kept any more"
            raise StateError(f"The job cannot be run again: {reason}.")
        return preview(question, self._subject.checkpoint_directory, self._graph, self._configuration)

    def _import_job(self) -> StreamGraph | None:
        subject = self._subject
        if subject.submission is None or subject.files is None:
            return None
        if subject.contents is not None:
            subject.contents.fetch(subject.submission.files, subject.files)
        place_files(subject.files, subject.submission.files)
        return unpickle_graph(subject.submission.graph)


def reply_to(inspector: Inspector, question: Question) -> dict[str, Any]:
    """Return the answer or the error. Whatever the user's classes raise is an error of the question."""
    try:
        return {"answer": inspector.answer(question)}
    except StorageError as error:
        return {"error": StateError.__name__, "text": str(error)}
    except FlottError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except MemoryError:
        return {"error": "ProgramError", "text": f"The answer needs more than {MEMORY_BYTES >> 30} GiB of memory."}
    except Exception as error:
        return {"error": "ProgramError", "text": f"{type(error).__name__}: {error}"}


def encoded(reply: dict[str, Any]) -> bytes:
    """Return a reply as JSON."""
    return json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")


def main() -> None:
    """Run the process."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    line = Connection(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    with suppress(ValueError, OSError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with suppress(EOFError, OSError):
        inspector = Inspector(line.recv())
        while line.poll(IDLE_SECONDS):
            question = line.recv()
            signal.alarm(ALARM_SECONDS)
            line.send_bytes(encoded(reply_to(inspector, question)))
            signal.alarm(0)
    os._exit(0)  # threads that the user's classes have started do not keep the process


if __name__ == "__main__":
    main()
