"""A model of the job for sinks: writers of several subtasks stage epochs, a committer commits them.

Committables go through JSON, as they would in a checkpoint.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any
from uuid import uuid4

import cloudpickle

from flott.common.configuration import Configuration
from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import Committer, Json, Sink, SinkWriter, WriterContext
from flott.runtime.storage import initialize_object_stores
from flott.testing.connectors.source_run import through_json
from flott.testing.sinks import commit_permit

#: When a writer is killed: after it has written, or after it has prepared its commit.
WRITTEN, PREPARED = "written", "prepared"


@dataclass
class Staged:
    """What one attempt at an epoch has prepared."""

    epoch: int
    attempt: str
    committables: list[Json] = field(default_factory=list)


@dataclass
class SinkRun:
    """One job that writes to a sink."""

    sink: Sink[Any]
    record_type: TypeInformation | None = None
    job_id: str = field(default_factory=lambda: uuid4().hex)
    operator_id: str = field(default_factory=lambda: uuid4().hex[:16])
    now_ms: int = 1_700_000_000_000
    options: Mapping[str, str] = field(default_factory=dict)  #: of the job; a process that writes is started with them
    _committer: Committer | None = field(init=False, default=None)

    def writer(self, epoch: int, attempt: str, subtask: int = 0, parallelism: int = 1) -> SinkWriter[Any]:
        """Return a writer for one subtask of an attempt at an epoch."""
        return self.sink.create_writer(self.context(epoch, attempt, subtask, parallelism))

    def context(self, epoch: int, attempt: str, subtask: int = 0, parallelism: int = 1) -> WriterContext:
        """Return what a writer is told."""
        return WriterContext(
            subtask=subtask,
            parallelism=parallelism,
            epoch=epoch,
            attempt_id=f"{attempt}-{subtask}",
            job_id=self.job_id,
            operator_id=self.operator_id,
            now_ms=self.now_ms + epoch,
            record_type=self.record_type,
        )

    def stage(self, epoch: int, values: Sequence[Any], parallelism: int = 1, attempt: str | None = None) -> Staged:
        """Write an epoch with some subtasks and prepare its commit. Batches are of one record and of many."""
        staged = Staged(epoch, attempt or uuid4().hex[:8])
        for subtask in range(parallelism):
            own = values[subtask::parallelism]
            writer = self.writer(epoch, staged.attempt, subtask, parallelism)
            if own:
                writer.write(own[:1], [self.now_ms])
                writer.write(own[1:], None) if own[1:] else None
            staged.committables += through_json(writer.prepare_commit())
            writer.close()
        return staged

    def commit(self, staged: Staged, *, replay: bool = False, final: bool = False) -> None:
        """Commit a completed checkpoint."""
        permit = commit_permit(staged.epoch, self.now_ms + staged.epoch, replay=replay, final=final)
        committer = self.committer()
        if committer is not None:
            committer.commit(permit, staged.committables)

    def restart(self, last: Staged | None, parallelism: int = 8) -> None:
        """Begin again as a new process does: commit the last checkpoint once more, remove what failed attempts left."""
        self.close()
        committer = self.committer()
        if committer is None:
            return
        if last is not None:
            self.commit(last, replay=True)
        live = [f"{last.attempt}-{subtask}" for subtask in range(parallelism)] if last is not None else []
        committer.discard(frozenset(live))

    def committer(self) -> Committer | None:
        """Return the committer of this process, opened."""
        if self._committer is None:
            self._committer = self.new_committer()
        return self._committer

    def new_committer(self) -> Committer | None:
        """Return another committer, as a second process has it."""
        committer = self.sink.create_committer()
        if committer is not None:
            committer.open(self.job_id, self.operator_id)
        return committer

    def close(self) -> None:
        """End the committer."""
        if self._committer is not None:
            self._committer.close()
            self._committer = None

    def stage_and_die(self, epoch: int, values: Sequence[Any], when: str, attempt: str) -> Staged:
        """Write an epoch in a process that is killed by SIGKILL. Return what it had prepared until then."""
        here, there = get_context("spawn").Pipe()
        told = (self.sink, self.context(epoch, attempt), list(values), when, dict(self.options))
        pickled = cloudpickle.dumps(told)
        process = get_context("spawn").Process(target=_write_and_die, args=(pickled, there))
        process.start()
        there.close()
        try:
            committables = here.recv() if here.poll(180) else None
        except EOFError:
            committables = None
        process.join(180)
        assert process.exitcode == -signal.SIGKILL, f"the writing process ended with {process.exitcode}"
        return Staged(epoch, attempt, through_json(committables) if committables is not None else [])


def _write_and_die(pickled: bytes, pipe: Connection) -> None:
    sink, context, values, when, options = cloudpickle.loads(pickled)
    initialize_object_stores(Configuration.of(options))
    writer = sink.create_writer(context)
    writer.write(values, None)
    if when == PREPARED:
        pipe.send(writer.prepare_commit())
    os.kill(os.getpid(), signal.SIGKILL)
