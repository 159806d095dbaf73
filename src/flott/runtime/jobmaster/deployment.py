"""A job's graph on its runner: deployed once, and again whenever the parallelism changes. Driver side.

Requests come from any thread and wait; the job's thread fulfils them between two epochs, all at once and in the order
they came. Each is answered when the first epoch after that is complete.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress

from flott.common._ids import JobId
from flott.common.completable_future import CompletableFuture
from flott.errors import FlottError
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.graph.stream_graph import StreamGraph
from flott.runtime.epoch.image import JobImage, TaskSettings, make_image
from flott.runtime.epoch.runner import TaskRunner
from flott.runtime.epoch.topology import Topology
from flott.runtime.jobmaster.rescaling import ParallelismChange, changes, parallelism_of, rescale
from flott.runtime.orders import RescaleJob
from flott.runtime.storage import Storage

log = logging.getLogger("flott.job")

Answer = CompletableFuture[None]


class Deployment:
    """The graph of one run of a job, in its present shape. ``graph`` is the chained ``program``."""

    def __init__(
        self,
        program: StreamGraph,
        graph: JobGraph,
        runner: TaskRunner,
        *,
        run_id: str,
        job_id: JobId,
        storage: Storage,
        settings: TaskSettings,
    ):
        self.runner = runner
        self._run_id = run_id
        self._job_id = job_id
        self._storage = storage
        self._settings = settings
        self._shapes = 0  #: how many there were: every image has an id of its own
        self._lock = threading.Lock()
        self._wanted = program  #: after all requests so far
        self._waiting: list[Answer] = []  #: for the end of the epoch that runs
        self._running: list[Answer] = []  #: for the end of the first epoch of the present shape
        self._ended: FlottError | None = None
        self.program, self.graph, self.image = self._install(program, graph)

    def _install(self, program: StreamGraph, graph: JobGraph) -> tuple[StreamGraph, JobGraph, JobImage]:
        image_id = self._run_id if self._shapes == 0 else f"{self._run_id}-{self._shapes}"
        image = make_image(graph, image_id, self._job_id, self._storage, self._settings)
        self.runner.deploy(image)
        self._shapes += 1
        return program, graph, image

    @property
    def topology(self) -> Topology:
        """Return the stages of the present graph."""
        return self.image.topology

    @property
    def parallelism(self) -> int:
        """Return the parallelism of the job as a whole."""
        return parallelism_of(self.program)

    # --- from any thread ---------------------------------------------------------------------------------------------

    def ask(self, order: RescaleJob) -> Answer:
        """Have the parallelism changed before the next epoch. Refuses at once what cannot be."""
        with self._lock:
            if self._ended is not None:
                return CompletableFuture.failed(self._ended)
            self._wanted = rescale(self._wanted, order)
            if not (self._waiting or self._running or changes(self.program, self._wanted)):
                return CompletableFuture.completed(None)
            answer: Answer = CompletableFuture()
            self._waiting.append(answer)
            return answer

    @property
    def is_asked(self) -> bool:
        """Return whether an order waits to be carried out."""
        return bool(self._waiting)

    # --- from the job's thread ---------------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Return whether an order waits for the first epoch of the present graph: it is due with or without input."""
        return bool(self._running)

    def reshape(self) -> tuple[ParallelismChange, ...]:
        """Carry out all orders that wait, between two epochs; return what changed."""
        with self._lock:
            wanted, answers, self._waiting = self._wanted, self._waiting, []
        changed = changes(self.program, wanted)
        if changed:
            try:
                self.program, self.graph, self.image = self._install(wanted, chain(wanted))
            except FlottError as error:
                log.warning("The parallelism of the job could not be changed: %s", error)
                with self._lock:  # later requests built on this one
                    answers, self._wanted, self._waiting = [*answers, *self._waiting], self.program, []
                _answer(answers, error)
                return ()
        self._running += answers
        return changed

    def epoch_completed(self) -> None:
        """Answer the orders that waited for an epoch of the present graph."""
        answers, self._running = self._running, []
        _answer(answers, None)

    def job_ended(self, error: FlottError) -> None:
        """Refuse the orders that wait, and later ones: no epoch will follow."""
        with self._lock:
            answers, self._ended = [*self._running, *self._waiting], error
            self._running, self._waiting = [], []
        _answer(answers, error)


def _answer(answers: Sequence[Answer], error: FlottError | None) -> None:
    for answer in answers:
        with suppress(InvalidStateError):  # the caller does not wait any more
            answer.set_result(None) if error is None else answer.set_exception(error)
