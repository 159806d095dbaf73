"""Decides which rows of which data files an epoch reads. Driver side.

The source reads a table's log step by step: first, perhaps, the content at one version, then what each version adds.
Its state is a place: the step, the file in it, the row in that. Every slice is a split of its own, which ends with it.

A plan proposes: the place after it stands in its last slice, so :meth:`TableEnumerator.advance` also works on an
enumerator that was restored and did not make the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.runtime.connectors.tables.steps import DataFile, Step, TableLog

#: Slices in one plan, per subtask: a plan is written durably before the epoch runs.
SLICES_PER_SUBTASK = 64
#: Steps that are kept in memory.
REMEMBERED_STEPS = 256
#: Steps that one plan looks at, so that a log of many versions without data does not delay an epoch.
STEPS_PER_PLAN = 200


@dataclass(frozen=True)
class Place:
    """How far the source has read. ``step`` is None at the end."""

    step: Json | None
    file: int = 0
    row: int = 0

    def to_json(self) -> Json:
        return [self.step, self.file, self.row]


class TableEnumerator(SplitEnumerator):
    """Plans the reading of a table."""

    def __init__(self, log: TableLog, interval_ms: int | None):
        self._log = log
        self._interval_ms = interval_ms  #: look for new versions so often; None: the table is bounded
        self._place: Place | None = None  # the state; None: nothing was read yet
        self._steps: dict[str, Step] = {}
        self._looked_at_ms: int | None = None  # when the log was found to have nothing more
        self._skipped: tuple[Place | None, Place] | None = None  # a place, and the same after steps without data

    def open(self) -> None:
        self._log.open()

    def restore(self, state: Json) -> None:
        self._place = None if state["place"] is None else Place(*state["place"])
        self._looked_at_ms = None

    def snapshot(self) -> Json:
        return {"version": 1, "place": None if self._place is None else self._place.to_json()}

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self._skipped is not None and self._skipped[0] == self._place:
            place = self._skipped[1]
        else:
            place = self._place or Place(self._log.first())
        draft = _TablePlan(request)
        waiting = False
        for _ in range(STEPS_PER_PLAN if not request.everything else 1 << 62):
            if place.step is None:
                break
            step = self._load(place.step, request)
            if step is None:
                waiting = True
                break
            if draft.slices and (step.ordered or draft.is_ordered):
                break
            place = draft.take(step, place)
            if draft.is_full:
                break
        if draft.slices:
            draft.close(place)
        else:
            self._skipped = (self._place, place)
        finished = place.step is None
        wake_at_ms = None
        if waiting and self._interval_ms is not None and self._looked_at_ms is not None:
            wake_at_ms = self._looked_at_ms + self._interval_ms
        return SlicePlan(tuple(draft.slices), finished, not waiting and not finished, wake_at_ms)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for part in plan.slices:
            if "place" in part.detail:
                self._place = Place(*part.detail["place"])

    def pending(self, now_ms: int) -> Pending:
        """Rows of the steps that were looked at and not read."""
        if self._place is None:
            return Pending()
        records, place = 0, self._place
        while place.step is not None and (step := self._steps.get(repr(place.step))) is not None:
            records += sum(file.rows for file in step.files[place.file :]) - place.row
            place = Place(step.next)
        return Pending(records=max(0, records))

    @property
    def is_finished(self) -> bool:
        """Whether the last completed epoch has read the end of the table."""
        return self._place is not None and self._place.step is None

    def close(self) -> None:
        self._log.close()

    def _load(self, ident: Json, request: SliceRequest) -> Step | None:
        key = repr(ident)
        if key not in self._steps:
            looked_at_ms, interval_ms = self._looked_at_ms, self._interval_ms or 0
            if looked_at_ms is not None and request.now_ms < looked_at_ms + interval_ms and not request.everything:
                return None
            step = self._log.load(ident)
            self._looked_at_ms = request.now_ms if step is None else None
            if step is None:
                return None
            if len(self._steps) >= REMEMBERED_STEPS:
                self._steps.pop(next(iter(self._steps)))
            self._steps[key] = step
        return self._steps[key]


class _TablePlan:
    """A plan being made: hands out the budget."""

    def __init__(self, request: SliceRequest):
        self.slices: list[Slice] = []
        self.is_ordered = False
        self._everything = request.everything
        self._left = max(1, request.max_records)
        self._share = max(1, request.max_records // request.parallelism)
        self._max_slices = SLICES_PER_SUBTASK * request.parallelism

    @property
    def is_full(self) -> bool:
        return not self._everything and (self._left <= 0 or len(self.slices) >= self._max_slices)

    def take(self, step: Step, place: Place) -> Place:
        """Take as much of a step as there is room for; return the place after it."""
        for index, row, stop in self._cuts(step.files, place):
            file = step.files[index]
            self.slices.append(
                Slice(
                    f"{'/'.join(map(str, step.ident))}/{index}@{row}",
                    row,
                    stop,
                    records=stop - row,
                    ends_split=True,
                    detail=_detail(step, file),
                )
            )
            self.is_ordered = self.is_ordered or step.ordered
            place = Place(place.step, index, stop)
        if place.file >= len(step.files) or (
            place.file == len(step.files) - 1 and place.row >= step.files[place.file].rows
        ):
            return Place(step.next)
        if not self.is_full:  # what is left has no rows
            return Place(step.next)
        return place

    def _cuts(self, files: tuple[DataFile, ...], place: Place) -> Iterator[tuple[int, int, int]]:
        row = place.row
        for index in range(place.file, len(files)):
            while row < files[index].rows:
                if self.is_full:
                    return
                share = files[index].rows if self._everything else min(self._share, self._left)
                stop = min(row + share, files[index].rows)
                yield index, row, stop
                self._left -= stop - row
                row = stop
            row = 0

    def close(self, place: Place) -> None:
        """Say in the last slice how far the source has come after all of them."""
        last = self.slices[-1]
        self.slices[-1] = Slice(
            last.split, last.start, last.stop, last.records, last.ends_split, last.detail | {"place": place.to_json()}
        )


def _detail(step: Step, file: DataFile) -> dict[str, Json]:
    detail: dict[str, Json] = {"path": file.path, "names": list(step.names), "note": step.note}
    if file.kind != "insert":
        detail["kind"] = file.kind
    if file.constants:
        detail["constants"] = {name: list(value) for name, value in file.constants.items()}
    if file.deletes:
        detail["deletes"] = list(file.deletes)
    if step.ids is not None:
        detail["ids"] = list(step.ids)
    return detail
