"""Publishes what tasks staged. Driver side; keeps no state but what the names in the directories say.

    staged ──rename──► segment ──rename, or concatenate + rename──► part ; then the segments are deleted

A crash may fall between any two of these steps. The next commit repairs it from a listing: a segment whose epoch is not
after the last published epoch of its writer, subtask and bucket is in a part already and is deleted; a part that was
being written is deleted and written again. Readers see only parts, and a part appears by a rename, complete.

Bulk formats go from staged to part in one rename.

With high availability a committer that was deposed may be at work beside its successor's. Making a staged file a
segment, or a bulk part, is the same rename for both: the second one finds it done. Rolling is not the same, since the
successor may put more segments into a part. So parts are written in the leader's folder behind a fence
(``runtime.storage.posix_fence``), and the successor removes that folder before it looks at the directories.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import uuid4

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.file_system._sink import FileSink
from flott.errors import ProgramError, StateError, StorageError
from flott.runtime.connectors.files.durable import concatenate, remove
from flott.runtime.connectors.files.names import (
    FileNames,
    PartName,
    RollingName,
    SegmentName,
    StagedName,
    fence_folder,
    writer_token,
)
from flott.runtime.connectors.files.rolling import Segment, is_abandoned, is_due
from flott.runtime.connectors.files.writer import encoder_header
from flott.runtime.storage import sync_folder
from flott.runtime.storage.posix_fence import PosixFence

log = logging.getLogger("flott.job")


class Group(NamedTuple):
    """What may be put into one part: the output of one subtask of one writer in one bucket."""

    bucket: str
    writer: str
    subtask: int


@dataclass
class _Listing:
    """What the directories say, kept up to date by the committer as long as nothing fails."""

    pending: dict[Group, list[Segment]] = field(default_factory=dict)
    published: dict[Group, int] = field(default_factory=dict)  #: the last epoch that is in a part


class FileCommitter(Committer):
    """Commits the output of a :class:`FileSink`."""

    def __init__(self, sink: FileSink):
        self._sink = sink
        self._names = FileNames(sink.output_file_config)
        self._header = encoder_header(sink.encoder)
        self._own: set[str] = set()  # writers whose segments and staged files are ours to handle
        self._opened = False
        self._writer = ""
        self._fence: PosixFence | None = None  # with high availability, once there was anything to commit
        self._finished = False
        self._listing: _Listing | None = None  # None: look at the directories again

    def open(self, job_id: str, operator_id: str) -> None:
        self._writer = writer_token(job_id, operator_id)
        self._own.add(self._writer)
        self._opened = True

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        self._own.update(committable["writer"] for committable in committables)
        try:
            if self._sink.bulk:
                self._publish(permit, committables)
                return
            self._take_over(permit)
            listing = self._repair() if self._listing is None or permit.replay else self._listing
            self._listing = None  # what it says is only true again if everything below goes well
            self._accept(permit, committables, listing)
            self._roll_due(permit, listing)
            self._listing = listing
            self._finished = permit.final
        except OSError as error:
            if self._fence is not None:
                self._fence.check()
            raise StorageError(
                f"Cannot publish output below {self._sink.base_path}: {error}. Check that it has room and is writable"
                " on the driver; the commit will be tried again."
            ) from error

    def _take_over(self, permit: CommitPermit) -> None:
        """Depose former leaders before the directories are read: none of them rolls anything any more."""
        if permit.leader and self._opened and self._fence is None and os.path.isdir(self._sink.base_path):
            fence = PosixFence(self._path("", fence_folder(self._writer)), permit.leader)
            fence.claim()
            self._fence = fence

    def close(self) -> None:
        if self._fence is not None:
            self._fence.release()
            if self._finished:
                shutil.rmtree(self._fence.folder, ignore_errors=True)

    def discard(self, live_attempts: frozenset[str]) -> None:
        for bucket, file_name in self._files():
            name = self._names.read(file_name)
            if not isinstance(name, StagedName) or name.writer not in self._own:
                continue  # other jobs may be writing into the same directory
            if not self._names.is_staged_by(name, live_attempts):
                remove(self._path(bucket, file_name))

    def _publish(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        """Make each staged file of a bulk format a part."""
        touched = set()
        for committable in committables:
            part = PartName(committable["writer"], committable["subtask"], committable["epoch"], committable["epoch"])
            target = self._path(committable["bucket"], self._names.part(part))
            if not os.path.exists(target):
                self._rename_staged(permit, committable, target)
            touched.add(committable["bucket"])
        self._sync(touched)

    def _accept(self, permit: CommitPermit, committables: Sequence[Json], listing: _Listing) -> None:
        """Rows: each staged file becomes a segment, unless that has happened before."""
        touched = set()
        for committable in committables:
            group = Group(committable["bucket"], committable["writer"], committable["subtask"])
            name = SegmentName(group.writer, group.subtask, committable["epoch"], committable["time_ms"])
            segments = listing.pending.setdefault(group, [])
            if name.epoch <= listing.published.get(group, -1):
                self._check_not_rewound(committable)
            elif all(segment.name != name for segment in segments) and self._rename_staged(
                permit, committable, self._path(group.bucket, self._names.segment(name))
            ):
                segments.append(Segment(name, committable["bytes"]))
                segments.sort(key=lambda segment: (segment.name.epoch, segment.name.time_ms))
            touched.add(group.bucket)
        self._sync(touched)

    def _rename_staged(self, permit: CommitPermit, committable: Json, target: str) -> bool:
        """Rename a staged file; False if it is gone because it was published before and taken away since."""
        staged = self._path(committable["bucket"], committable["staged"])
        try:
            os.rename(staged, target)
            return True
        except FileNotFoundError:
            if os.path.exists(target):
                return True  # another committer has come first, in the same moment: the leader's, or a deposed one's
            what = (
                f"The output {staged} of epoch {committable['epoch']} ({committable['records']} records) belongs to a"
                " completed checkpoint but is neither staged nor published"
            )
            if permit.replay:
                # Published before the restart, and a consumer has moved the part on: that is what parts are for.
                log.warning("%s. It was most likely published and moved on before the job restarted.", what)
                return False
            raise StateError(f"{what}. It was deleted: restore it, or start the job again without its state.") from None

    def _check_not_rewound(self, committable: Json) -> None:
        staged = self._path(committable["bucket"], committable["staged"])
        if os.path.exists(staged):
            raise StateError(
                f"{staged} holds output of epoch {committable['epoch']}, which this job has published before: it seems"
                " to have been set back to an older checkpoint. Continue it as a new job, or into another directory."
            )

    def _roll_due(self, permit: CommitPermit, listing: _Listing) -> None:
        for group in [group for group, segments in listing.pending.items() if not segments]:
            del listing.pending[group]
        for group, segments in sorted(listing.pending.items()):
            if self._may_roll(permit, group, segments):
                self._roll(group, segments)
                listing.published[group] = segments[-1].name.epoch
                del listing.pending[group]

    def _may_roll(self, permit: CommitPermit, group: Group, segments: Sequence[Segment]) -> bool:
        policy = self._sink.rolling_policy
        if self._opened and group.writer not in self._own:
            return is_abandoned(policy, segments, permit.now_ms)
        return permit.final or is_due(policy, segments, permit.now_ms)

    def _roll(self, group: Group, segments: Sequence[Segment]) -> None:
        """Make the segments a part. The rename is the moment; everything after it can be done again."""
        first, last = segments[0].name.epoch, segments[-1].name.epoch
        target = self._path(group.bucket, self._names.part(PartName(group.writer, group.subtask, first, last)))
        sources = [self._path(group.bucket, self._names.segment(segment.name)) for segment in segments]
        if self._fence is not None:
            draft = self._fence.place(os.path.basename(target))
            self._gather(sources, draft)
        elif len(sources) == 1 and not self._header:
            os.rename(sources[0], target)
            self._sync({group.bucket})
            return
        else:
            rolling = RollingName(group.writer, group.subtask, first, last, uuid4().hex[:8])
            draft = self._path(group.bucket, self._names.rolling(rolling))
            concatenate(self._header, sources, draft)
        os.rename(draft, target)
        self._sync({group.bucket})
        for source in sources:
            remove(source)

    def _gather(self, sources: Sequence[str], draft: str) -> None:
        """Put segments into one file; a single one is merely given a second name, where that can be done."""
        if len(sources) == 1 and not self._header:
            with suppress(OSError):
                os.link(sources[0], draft)
                return
        concatenate(self._header, sources, draft)

    def _repair(self) -> _Listing:
        """Look at all directories, and finish or undo what a crash left half done."""
        listing = _Listing()
        drafts: list[str] = []
        for bucket, file_name in self._files():
            name = self._names.read(file_name)
            if isinstance(name, SegmentName):
                size_bytes = os.path.getsize(self._path(bucket, file_name))
                listing.pending.setdefault(Group(bucket, name.writer, name.subtask), []).append(
                    Segment(name, size_bytes)
                )
            elif isinstance(name, PartName):
                group = Group(bucket, name.writer, name.subtask)
                listing.published[group] = max(name.last, listing.published.get(group, -1))
            elif isinstance(name, RollingName) and (name.writer in self._own or not self._opened):
                drafts.append(self._path(bucket, file_name))
        for draft in drafts:
            remove(draft)
        for group, segments in listing.pending.items():
            for segment in segments:
                if segment.name.epoch <= listing.published.get(group, -1):
                    remove(self._path(group.bucket, self._names.segment(segment.name)))
            waiting = [segment for segment in segments if segment.name.epoch > listing.published.get(group, -1)]
            segments[:] = sorted(waiting, key=lambda segment: (segment.name.epoch, segment.name.time_ms))
        return listing

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield all files below the base path, as bucket and name."""
        base = self._sink.base_path
        for folder, _, file_names in os.walk(base):
            bucket = "" if folder == base else os.path.relpath(folder, base)
            for file_name in file_names:
                yield bucket, file_name

    def _path(self, bucket: str, file_name: str) -> str:
        return os.path.join(self._sink.base_path, bucket, file_name)

    def _sync(self, buckets: set[str]) -> None:
        for bucket in buckets:
            sync_folder(os.path.join(self._sink.base_path, bucket))


def check_base_path(base_path: str) -> None:
    """Refuse a directory that cannot be written to, before anything runs."""
    folder = base_path
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise ProgramError(f"The file sink writes below {base_path}, but {folder} is a file: choose a directory.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ProgramError(f"The file sink writes below {base_path}, but {folder} is not writable for this user.")
