"""Publishes what tasks staged in an object store. Driver side.

    <base path>/.flott-staging-<writer>/fence/head            who commits, and what is pending (``object_head``)
    <base path>/.flott-staging-<writer>/<bucket>/<staged>     the output of one subtask in one epoch
    <base path>/<bucket>/<part>                               a part: complete, visible, never changed again

An object store has no rename, so that a staged object is committed is a fact in the head, not its name. A commit is:

    1. one conditional put: the epoch's objects are pending, and these of them become these parts (decided once)
    2. the parts are written: by a copy within the store, or, if several objects become one, through this process
    3. one conditional put: those parts are there
    4. the objects they were made of are deleted

After a crash the next commit finds in the head how far this came, and does the rest again: a part has the same content
whichever process writes it. A leader that was deposed fails at 1 or 3. If it was stopped in 2 it writes, when it goes
on, the same bytes under the same name, or finds that the staged objects are gone. (So a part that a consumer has
deleted by then may appear once more, if the driver was stopped in the very middle of 2.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.file_system._sink import FileSink
from flott.errors import FlottError, StateError, StorageError
from flott.runtime.connectors.files.names import (
    FileNames,
    PartName,
    SegmentName,
    StagedName,
    object_staging,
    writer_of_staging,
    writer_token,
)
from flott.runtime.connectors.files.rolling import Segment, is_abandoned, is_due
from flott.runtime.connectors.files.writer import encoder_header
from flott.runtime.storage import Storage
from flott.runtime.storage.locations import join, last_part_of
from flott.runtime.storage.object_store import COPY_BYTES, READ_AHEAD_BYTES
from flott.runtime.storage.opening import open_object_storage

log = logging.getLogger("flott.job")

#: The published file that holds the state of the commits.
STATE = "commits.json"
VERSION = 1


@dataclass(frozen=True)
class PendingObject:
    """A committed object that is not in a part yet."""

    bucket: str
    writer: str
    subtask: int
    epoch: int
    time_ms: int
    bytes: int
    staged: str  #: the name below the staging folder of its writer

    @property
    def location(self) -> str:
        """Return where it is, below the base path."""
        return join(object_staging(self.writer), self.staged)

    @property
    def group(self) -> str:
        """Return what may be put into one part: the output of one subtask of one writer in one bucket."""
        return f"{self.writer}-{self.subtask}-{self.bucket}"

    @property
    def segment(self) -> Segment:
        """Return the same as the rolling policy sees it."""
        return Segment(SegmentName(self.writer, self.subtask, self.epoch, self.time_ms), self.bytes)


@dataclass
class Commits:
    """What is known of a sink's output."""

    pending: list[PendingObject] = field(default_factory=list)
    rolling: list[list[PendingObject]] = field(default_factory=list)  #: each becomes one part, which may be there
    rolled: list[str] = field(default_factory=list)  #: locations of staged objects that are in parts, to be deleted
    published: dict[str, int] = field(default_factory=dict)  #: by group, the last epoch that is in a part

    def encode(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @staticmethod
    def decode(data: bytes) -> Commits:
        """Return what a file says."""
        content: dict[str, Any] = json.loads(data)
        return Commits(
            [PendingObject(**entry) for entry in content["pending"]],
            [[PendingObject(**entry) for entry in part] for part in content["rolling"]],
            content["rolled"],
            content["published"],
        )

    @property
    def objects(self) -> set[str]:
        """Return the staged objects that are committed, and not yet deleted."""
        committed = [*self.pending, *(entry for part in self.rolling for entry in part)]
        return {entry.location for entry in committed} | set(self.rolled)


class ObjectFileCommitter(Committer):
    """Commits the output of a :class:`FileSink` whose base path is in an object store."""

    def __init__(self, sink: FileSink):
        self._sink = sink
        self._names = FileNames(sink.output_file_config)
        self._header = encoder_header(sink.encoder)
        self._base = open_object_storage(sink.base_path)
        self._writer = ""
        self._storage: Storage | None = None  #: claimed by this process, once there was anything to commit
        self._commits: Commits | None = None  #: None: read it again

    def open(self, job_id: str, operator_id: str) -> None:
        self._writer = writer_token(job_id, operator_id)

    # --- committing ---------------------------------------------------------------------------------------------------

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        storage = self._claimed(permit, bool(committables))
        if storage is None:
            return
        try:
            self._commit(storage, permit, committables)
        except StorageError:
            self._check()
            raise

    def _commit(self, storage: Storage, permit: CommitPermit, committables: Sequence[Json]) -> None:
        commits = self._read(storage) if self._commits is None or permit.replay else self._commits
        self._commits = None  # what it says is only true again if everything below goes well
        self._finish(storage, commits, permit)
        before = commits.encode()
        self._accept(permit, committables, commits)
        self._choose(permit, commits)
        if commits.encode() != before:
            storage.publish(STATE, commits.encode())
        self._finish(storage, commits, permit)
        self._commits = commits
        if permit.replay or permit.final:
            self._publish_abandoned(permit)

    def _claimed(self, permit: CommitPermit, has_output: bool) -> Storage | None:
        """Return the storage of this sink's commits; None if there was never anything to commit."""
        if self._storage is None:
            storage = self._staging(self._writer)
            if not has_output and not storage.exists("."):
                return None
            self._storage = storage.fenced(permit.leader)
            assert self._storage.fence is not None
            self._storage.fence.claim()
        return self._storage

    def _accept(self, permit: CommitPermit, committables: Sequence[Json], commits: Commits) -> None:
        """Take the epoch's objects in, unless that has happened before."""
        known = commits.objects
        for found in committables:
            staged = f"{found['bucket']}/{found['staged']}".lstrip("/")
            entry = PendingObject(
                found["bucket"], found["writer"], found["subtask"], found["epoch"], found["time_ms"], found["bytes"],
                staged,
            )  # fmt: skip
            if entry.location in known:
                continue
            exists = self._base.exists(entry.location)
            if entry.epoch <= commits.published.get(entry.group, -1):
                if exists:
                    self._check()
                    raise StateError(
                        f"{staged} holds output of epoch {entry.epoch}, which this job has published before: it seems"
                        " to have been set back to an older checkpoint. Continue it as a new job, or into another"
                        " directory."
                    )
            elif exists:
                commits.pending.append(entry)
            elif not self._base.exists(self._part([entry])):
                what = (
                    f"The output {staged} of epoch {entry.epoch} ({found['records']} records) below"
                    f" {self._sink.base_path} belongs to a completed checkpoint but is neither staged nor published"
                )
                self._check()
                if not permit.replay:
                    raise StateError(f"{what}. It was deleted: restore it, or start the job again without its state.")
                log.warning("%s. It was most likely published and moved on before the job restarted.", what)
        commits.pending.sort(key=lambda entry: (entry.group, entry.epoch, entry.time_ms))

    def _check(self) -> None:
        """Raise ``LeadershipLostError`` if the reason for what was found is that another process has committed it."""
        assert self._storage is not None
        assert self._storage.fence is not None
        self._storage.fence.check()

    def _choose(self, permit: CommitPermit, commits: Commits) -> None:
        """Decide which parts are to be made, once and for all."""
        groups: dict[str, list[PendingObject]] = {}
        for entry in commits.pending:
            groups.setdefault(entry.group, []).append(entry)
        for group, entries in groups.items():
            policy = self._sink.rolling_policy
            if permit.final or is_due(policy, [entry.segment for entry in entries], permit.now_ms):
                commits.rolling += [[entry] for entry in entries] if self._sink.bulk else [entries]
                commits.published[group] = entries[-1].epoch
                commits.pending = [entry for entry in commits.pending if entry not in entries]

    def _finish(self, storage: Storage, commits: Commits, permit: CommitPermit) -> None:
        """Make the parts that were decided, and delete what they were made of."""
        for entries in commits.rolling:
            self._write_part(entries, permit)
        if commits.rolling:
            commits.rolled += [entry.location for part in commits.rolling for entry in part]
            commits.rolling = []
            storage.publish(STATE, commits.encode())
        if commits.rolled:
            self._base.delete_all(commits.rolled)
            commits.rolled = []  # written down with the next change: to delete them again would do no harm

    def _write_part(self, entries: Sequence[PendingObject], permit: CommitPermit) -> None:
        target = self._part(entries)
        if self._base.exists(target):
            return
        sources = [entry.location for entry in entries]
        if missing := [source for source in sources if not self._base.exists(source)]:
            self._check()
            what = f"The committed output {', '.join(missing)} below {self._sink.base_path} is gone"
            if not permit.replay:
                raise StateError(f"{what}. It was deleted: restore it, or start the job again without its state.")
            log.warning("%s. It was most likely published and moved on before the job restarted.", what)
            return
        if len(sources) == 1 and not self._needs_header and entries[0].bytes <= COPY_BYTES:
            self._base.copy(sources[0], target)
            return
        with self._base.create(target) as part:
            if self._needs_header:
                part.write(self._header)
            for source in sources:
                with self._base.open(source) as content:
                    while data := content.read(READ_AHEAD_BYTES):
                        part.write(data)

    @property
    def _needs_header(self) -> bool:
        return bool(self._header) and not self._sink.bulk

    def _part(self, entries: Sequence[PendingObject]) -> str:
        first, last = entries[0], entries[-1]
        name = self._names.part(PartName(first.writer, first.subtask, first.epoch, last.epoch))
        return f"{first.bucket}/{name}".lstrip("/")

    # --- what others left ---------------------------------------------------------------------------------------------

    def _publish_abandoned(self, permit: CommitPermit) -> None:
        """Publish what jobs that were stopped left pending: each went on under another id, and does not come back."""
        for folder in self._base.list("."):
            writer = writer_of_staging(folder)
            if writer is None or writer == self._writer:
                continue
            try:
                self._publish_abandoned_by(writer, permit)
            except FlottError as error:  # its job runs, or another one was faster
                log.debug("The output that %s left below %s stays: %s", writer, self._sink.base_path, error)

    def _publish_abandoned_by(self, writer: str, permit: CommitPermit) -> None:
        storage = self._staging(writer)
        commits = self._read(storage)
        segments = [entry.segment for entry in commits.pending]
        if not segments or not is_abandoned(self._sink.rolling_policy, segments, permit.now_ms):
            return
        fenced = storage.fenced(0)
        assert fenced.fence is not None
        fenced.fence.claim()
        commits = self._read(fenced)
        groups: dict[str, list[PendingObject]] = {}
        for entry in commits.pending:
            groups.setdefault(entry.group, []).append(entry)
        commits.rolling += groups.values()
        commits.published |= {group: entries[-1].epoch for group, entries in groups.items()}
        commits.pending = []
        fenced.publish(STATE, commits.encode())
        self._finish(fenced, commits, permit)
        fenced.fence.release()

    def discard(self, live_attempts: frozenset[str]) -> None:
        storage = self._staging(self._writer)
        found = list(self._staged(storage))
        committed = self._read(storage).objects
        left = [
            staged
            for staged, name in found
            if join(object_staging(self._writer), staged) not in committed
            and not self._names.is_staged_by(name, live_attempts)
        ]
        storage.delete_all(left)

    def _staged(self, storage: Storage) -> Iterator[tuple[str, StagedName]]:
        root = f"{storage.root}/"
        for location, _ in open_object_storage(storage.root).files_at("."):
            name = self._names.read(last_part_of(location))
            if isinstance(name, StagedName) and name.writer == self._writer:
                yield location.removeprefix(root), name

    # --- what is known ------------------------------------------------------------------------------------------------

    def _staging(self, writer: str) -> Storage:
        return self._base.at(join(self._sink.base_path, object_staging(writer)))

    def _read(self, storage: Storage) -> Commits:
        return Commits.decode(storage.read(STATE)) if storage.exists(STATE) else Commits()

    def close(self) -> None:
        if self._storage is not None and self._storage.fence is not None:
            self._storage.fence.release()
