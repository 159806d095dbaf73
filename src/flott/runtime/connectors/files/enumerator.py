"""Decides which slices of which files an epoch reads. Driver side.

Files are opened in the order of their paths, and a large file is opened block by block; each block is a split. The
state is small however many files there are: the splits that are half read, the file whose blocks are not all open yet,
and how far the opening has come, which is a path if the set of files is fixed, and a set of digests if it is watched.

A plan proposes: everything :meth:`FileEnumerator.advance` needs is in the slices, so that it also works on an
enumerator that was restored and did not make the plan.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.file_system._source import FileSource
from flott.runtime.connectors.files.discovery import FoundFile, check_paths, find_files
from flott.runtime.connectors.files.layout import layout_of

#: Splits that stay half read after an epoch, per subtask: enough to keep all busy, few enough for a small state.
OPEN_SPLITS_PER_SUBTASK = 2
#: Slices in one plan, per subtask: a plan is written durably before the epoch runs.
SLICES_PER_SUBTASK = 64
#: The average size of a record is forgotten slowly, so that it follows the files.
REMEMBERED_RECORDS = 1_000_000
_DIGEST_BYTES = 10


@dataclass(frozen=True)
class FileSplit:
    """A part of a file, and how far it was read."""

    path: str
    start: int
    stop: int  #: records that start before this belong to the split
    file_end: int  #: where the file ends for us: its size when it was found
    position: int

    @property
    def name(self) -> str:
        return f"{self.path}@{self.start}"


class FileEnumerator(SplitEnumerator):
    """Plans the reading of a :class:`FileSource`."""

    def __init__(self, source: FileSource):
        self._source = source
        self._watching = source.discovery_interval_ms is not None
        self._layout = layout_of(source.format, source.block_bytes)
        # The state: what snapshot returns.
        self._open: dict[str, FileSplit] = {}
        self._rest: tuple[str, int, int] | None = None  # path, next block's start, file end: blocks not yet open
        self._cursor = ""  # fixed set: the path opened last
        self._seen: set[bytes] = set()  # watched set: digests of the paths opened
        self._read = (0, 0)  # positions moved and records read, for the average
        # Not state: what the last listing found and was not opened.
        self._pending: deque[FoundFile] = deque()
        self._pending_bytes = 0  # of those
        self._listed_at_ms: int | None = None

    def open(self) -> None:
        check_paths(self._source.paths, self._watching)
        if not self._watching:
            self._await(self.found())

    def found(self) -> list[FoundFile]:
        """Return the files that are there now, sorted by path. A table leaves out those it need not read."""
        return find_files(self._source.paths)

    def restore(self, state: Json) -> None:
        self._open = {split.name: split for split in (FileSplit(*fields) for fields in state["open"])}
        self._rest = None if state["rest"] is None else (state["rest"][0], state["rest"][1], state["rest"][2])
        self._cursor = state["cursor"]
        self._read = (state["read"][0], state["read"][1])
        digests = b64decode(state["seen"])
        self._seen = {digests[i : i + _DIGEST_BYTES] for i in range(0, len(digests), _DIGEST_BYTES)}
        self._listed_at_ms = None
        self._drop_opened()

    def snapshot(self) -> Json:
        return {
            "version": 1,
            "open": [[s.path, s.start, s.stop, s.file_end, s.position] for s in self._open.values()],
            "rest": None if self._rest is None else list(self._rest),
            "cursor": self._cursor,
            "seen": b64encode(b"".join(sorted(self._seen))).decode("ascii"),
            "read": list(self._read),
        }

    def plan(self, request: SliceRequest) -> SlicePlan:
        self._list_if_due(request.now_ms)
        draft = _Draft(request, self._units_per_record())
        waiting = False
        for split in self._open.values():
            done = split.position >= split.stop
            if split.name in request.paused or not (done or draft.has_room):
                waiting, draft.open_after = True, draft.open_after + 1
            else:
                draft.add(split, self._slice_stop(split, draft.share))
        for split in self._upcoming():
            if split.name in request.paused or not draft.has_room or not draft.may_open:
                waiting = True
                break
            draft.add(split, self._slice_stop(split, draft.share))
        left = waiting or draft.open_after > 0
        finished = not left and not self._watching
        return SlicePlan(tuple(draft.slices), finished, left, None if left or finished else self._next_listing_ms())

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        moved, records = self._read
        for part in plan.slices:
            self._register(part)
            split = self._open.pop(part.split)
            position, count = reached[part.split]
            moved, records = moved + max(0, position - part.start), records + count
            if not part.ends_split:
                self._open[part.split] = FileSplit(split.path, split.start, split.stop, split.file_end, position)
        self._read = (moved, records) if records <= REMEMBERED_RECORDS else (moved // 2, records // 2)
        # The order of opening is the order of reading: the oldest split comes first again.
        self._open = dict(sorted(self._open.items(), key=lambda item: (item[1].path, item[1].start)))
        self._drop_opened()

    def pending(self, now_ms: int) -> Pending:
        """Bytes, as they are in the files; for Parquet that is unknown until all footers are read."""
        if not self._layout.in_bytes:
            return Pending()
        half_read = sum(max(0, split.stop - split.position) for split in self._open.values())
        unopened = self._rest[2] - self._rest[1] if self._rest is not None else 0
        return Pending(bytes=half_read + unopened + self._pending_bytes)

    def _register(self, part: Slice) -> None:
        """Open the split of a slice, if this is its first."""
        if part.split in self._open:
            return
        detail = part.detail
        split = FileSplit(detail["path"], detail["start"], detail["stop"], detail["file_end"], part.start)
        self._open[split.name] = split
        self._rest = (split.path, split.stop, split.file_end) if split.stop < split.file_end else None
        if self._watching:
            self._seen.add(_digest(split.path))
        else:
            self._cursor = split.path

    def _upcoming(self) -> Iterator[FileSplit]:
        """Yield the splits to open next, in order. Empty files have none."""
        if self._rest is not None:
            yield from self._blocks(*self._rest)
        for file in self._pending:
            yield from self._blocks(file.path, 0, self._layout.measure(file))

    def _blocks(self, path: str, start: int, file_end: int) -> Iterator[FileSplit]:
        while start < file_end:
            stop = self._layout.block_end(path, start, file_end)
            yield FileSplit(path, start, stop, file_end, start)
            start = stop

    def _slice_stop(self, split: FileSplit, share: int) -> int:
        if split.position >= split.stop:
            return split.position  # its last record reached beyond its end: nothing to read but the news that it ended
        return self._layout.slice_stop(split.path, split.position, share, split.stop)

    def _units_per_record(self) -> float:
        moved, records = self._read
        return moved / records if records and moved else self._layout.units_per_record

    def _list_if_due(self, now_ms: int) -> None:
        interval_ms = self._source.discovery_interval_ms
        if interval_ms is None or (self._listed_at_ms is not None and now_ms < self._listed_at_ms + interval_ms):
            return
        self._listed_at_ms = now_ms
        found = self.found()
        self._await(file for file in found if file.size_bytes and _digest(file.path) not in self._seen)

    def _next_listing_ms(self) -> int | None:
        interval_ms = self._source.discovery_interval_ms
        return None if interval_ms is None or self._listed_at_ms is None else self._listed_at_ms + interval_ms

    def _drop_opened(self) -> None:
        """Forget pending files that are open or done: they stand at the front, where the plan took them from."""
        if self._watching:
            self._await(file for file in self._pending if _digest(file.path) not in self._seen)
            return
        while self._pending and self._pending[0].path <= self._cursor:
            self._pending_bytes -= self._pending.popleft().size_bytes

    def _await(self, files: Iterable[FoundFile]) -> None:
        self._pending = deque(files)
        self._pending_bytes = sum(file.size_bytes for file in self._pending)


class _Draft:
    """A plan being made: hands out the budget."""

    def __init__(self, request: SliceRequest, units_per_record: float):
        budget = max(1, int(request.max_records * units_per_record))
        self.slices: list[Slice] = []
        self.open_after = 0  #: splits that will be half read after this epoch
        self._left = budget
        self._share = max(1, budget // request.parallelism)
        self._units_per_record = units_per_record
        self._parallelism = request.parallelism
        self._max_slices = None if request.everything else SLICES_PER_SUBTASK * request.parallelism

    @property
    def share(self) -> int:
        """Return how much to read of one split: no more than a subtask's part, so that all have something to read."""
        return max(1, min(self._share, self._left))

    @property
    def has_room(self) -> bool:
        return self._left > 0 and (self._max_slices is None or len(self.slices) < self._max_slices)

    @property
    def may_open(self) -> bool:
        return self.open_after < OPEN_SPLITS_PER_SUBTASK * self._parallelism

    def add(self, split: FileSplit, stop: int) -> None:
        ends = stop >= split.stop
        size = stop - split.position
        self.slices.append(
            Slice(
                split.name,
                split.position,
                stop,
                records=max(1, round(size / self._units_per_record)) if size else 0,
                ends_split=ends,
                detail={"path": split.path, "start": split.start, "stop": split.stop, "file_end": split.file_end},
            )
        )
        self._left -= size
        self.open_after += 0 if ends else 1


def _digest(path: str) -> bytes:
    return blake2b(path.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES).digest()
