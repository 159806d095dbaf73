"""How a story is laid out on a sheet: by keys, by epochs, by splits, or as pairs. Only what was observed is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flott.common._watermark_report import TimePlace
from flott.datastream import DataStream
from flott.datastream.window import EventTimeSessionWindows, TimeWindow, WindowAssigner
from scripts.observation import (
    Contents,
    Fired,
    Happened,
    Program,
    Record,
    key_of,
    observe,
    observe_pairs,
    observe_splits,
    seconds_of,
)
from scripts.svg import Sheet

WIDTH = 760
LEFT, RIGHT = 100, 24  #: beside the axis
HEAD = 72  #: above it: the heading and the watermarks
ROW = 26


@dataclass(frozen=True)
class Scale:
    """Seconds -> x."""

    first: int
    last: int
    left: int = LEFT

    def __call__(self, second: float) -> float:
        return self.left + (second - self.first) / (self.last - self.first) * (WIDTH - self.left - RIGHT)

    def axis(self, sheet: Sheet, y: float, every: int, top: float) -> None:
        """The axis of event time below the picture, with faint lines up to its top."""
        for second in range(self.first, self.last + 1, every):
            sheet.line(self(second), top, self(second), y, "grid")
            sheet.text(self(second), y + 16, f"{second} s".replace("-", "−"), "quiet s m")
        sheet.line(self(self.first), y, self(self.last), y, "quiet")
        sheet.text(20, y + 16, "event time", "quiet s")


def epoch_look(epoch: int) -> str:
    """The colour of an epoch."""
    return f"e{epoch}"


def heading(sheet: Sheet, words: str, program: str) -> None:
    sheet.text(20, 27, words, "ink h")
    sheet.text(WIDTH - 20, 27, program, "quiet s r")


def legend(sheet: Sheet, y: float, epochs: Sequence[int], extras: Sequence[tuple[str, str]]) -> None:
    """What colours and marks mean, in one row."""
    x = 20.0
    for epoch in epochs:
        sheet.box(x, y - 9, 10, 10, f"{epoch_look(epoch)} bare", 5)
        sheet.text(x + 15, y, f"epoch {epoch}", "quiet s")
        x += 68
    for mark, words in extras:
        match mark:
            case "watermark":
                sheet.flag(x + 5, y, "quiet bare")
            case "open":
                sheet.box(x, y - 9, 12, 10, "quiet line dash", 2)
            case "late":
                sheet.box(x, y - 10, 12, 12, "late line", 6)
            case "past":
                sheet.box(x, y - 10, 12, 12, "ink past", 0)
            case "gap":
                _draw_gap(sheet, x, x + 12, y - 4, "quiet")
        sheet.text(x + 17, y, words, "quiet s")
        x += 30 + 5.6 * len(words)


def watermarks(sheet: Sheet, scale: Scale, happened: Happened, bottom: float) -> None:
    """A flag and a line where event time was at the end of each epoch."""
    for epoch, second in happened.watermarks.items():
        if second is not None:
            sheet.line(scale(second), HEAD - 10, scale(second), bottom, f"{epoch_look(epoch)} line dash")
            sheet.flag(scale(second), HEAD - 10, f"{epoch_look(epoch)} bare")
            sheet.text(scale(second), HEAD - 22, f"epoch {epoch}", f"{epoch_look(epoch)} s m")


def in_rows(spans: Iterable[tuple[float, float]]) -> list[int]:
    """For each span the first row in which it overlaps no other.

    >>> in_rows([(0, 10), (5, 15), (10, 20)])
    [0, 1, 0]
    """
    ends: list[float] = []
    rows: list[int] = []
    for start, end in spans:
        row = next((row for row, taken in enumerate(ends) if taken <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows


# --- lanes: one for each key, with its records and below them its windows ---------------------------------------------


@dataclass(frozen=True)
class Lanes:
    """A story drawn key by key."""

    title: str
    description: str
    program: str
    script: Sequence[Any]
    assigner: WindowAssigner[Record, TimeWindow]
    first: int
    last: int
    every: int
    slack_seconds: int = 0

    def draw(self) -> Sheet:
        happened = observe(self.script, self._program, self.slack_seconds)
        lanes = {key: self._windows(key, happened) for key in sorted({record.key for _, record in happened.read})}
        rows = {key: in_rows([(w.start, w.end) for _, w in windows]) for key, windows in lanes.items()}
        height_of = {key: 42 + (max(rows[key]) + 1) * ROW for key in lanes}
        bottom = HEAD + sum(height_of.values())
        sheet = Sheet(WIDTH, bottom + 58, self.title, self.description)
        scale = Scale(self.first, self.last)
        heading(sheet, self.title, self.program)
        scale.axis(sheet, bottom, self.every, HEAD)
        watermarks(sheet, scale, happened, bottom)
        y = HEAD
        for key, windows in lanes.items():
            sheet.text(LEFT - 14, y + 22, key, "ink b r")
            for (epoch, window), row in zip(windows, rows[key], strict=True):
                _draw_window(sheet, scale, y + 40 + row * ROW, epoch, window)
            for number, (epoch, record) in enumerate(each for each in happened.read if each[1].key == key):
                if isinstance(self.assigner, EventTimeSessionWindows):
                    end = record.second + self.assigner.gap_ms / 1000
                    _draw_gap(sheet, scale(record.second), scale(end), y + 31 + number % 2 * 4, epoch_look(epoch))
                sheet.dot(scale(record.second), y + 18, str(record.value), f"{epoch_look(epoch)} bare")
            y += height_of[key]
            if y < bottom:
                sheet.line(20, y - 3, WIDTH - 20, y - 3, "grid")
        marks = [("watermark", "event time at the end of the epoch")]
        if isinstance(self.assigner, EventTimeSessionWindows):
            marks.append(("gap", "the gap after a record"))
        if any(epoch is None for windows in lanes.values() for epoch, _ in windows):
            marks.append(("open", "still open"))
        legend(sheet, bottom + 44, happened.epochs, marks)
        return sheet

    def _program(self, stream: DataStream[Record]) -> DataStream[Fired]:
        return stream.key_by(key_of).window(self.assigner).apply(Contents())

    def _windows(self, key: str, happened: Happened) -> list[tuple[int | None, Fired]]:
        """The windows of a key: those that fired, with their epoch, and those that are still open."""
        fired = [(epoch, window) for epoch, window in happened.results if window.key == key]
        closed = {(window.start, window.end) for _, window in fired}
        holding: dict[tuple[float, float], tuple[Record, ...]] = {}
        for _, record in happened.read:
            if record.key == key:
                for window in self.assigner.assign_windows(record, record.second * 1000, None):  # type: ignore[arg-type]
                    span = window.start / 1000, window.end / 1000
                    covered = any(start <= span[0] and span[1] <= end for start, end in closed)
                    if span not in closed and not (covered and isinstance(self.assigner, EventTimeSessionWindows)):
                        holding[span] = (*holding.get(span, ()), record)
        waiting = [(None, Fired(key, *span, records)) for span, records in holding.items()]
        return sorted([*fired, *waiting], key=lambda each: (each[1].start, each[1].end))


def _draw_window(sheet: Sheet, scale: Scale, y: float, epoch: int | None, window: Fired) -> None:
    x, width = scale(window.start) + 1, scale(window.end) - scale(window.start) - 2
    if epoch is None:
        sheet.box(x, y, width, ROW - 6, "page bare")
        sheet.box(x, y, width, ROW - 6, "quiet line dash")
        words, colour = f"Σ {window.total} so far", "quiet"
    else:
        sheet.band(x, y, width, ROW - 6, epoch_look(epoch))
        words, colour = f"Σ {window.total}" + (f" in epoch {epoch}" if width > 100 else ""), epoch_look(epoch)
    sheet.text(x + width / 2, y + 14, words, f"{colour} s b m")


def _draw_gap(sheet: Sheet, x1: float, x2: float, y: float, colour: str) -> None:
    """From a record to the moment its session would end without another one."""
    sheet.line(x1, y, x2, y, f"{colour} line")
    sheet.line(x2, y - 3, x2, y + 3, f"{colour} line")


# --- epochs: one row for each, the past to the left of a staircase ----------------------------------------------------


@dataclass(frozen=True)
class Staircase:
    """A story of one key drawn epoch by epoch: what came, how far event time went, what was given out."""

    title: str
    description: str
    program: str
    script: Sequence[Any]
    build: Program
    size: int
    first: int
    last: int

    ROW_HEIGHT = 74

    def draw(self) -> Sheet:
        happened = observe(self.script, self.build)
        epochs = happened.epochs
        top, bottom = HEAD, HEAD + len(epochs) * self.ROW_HEIGHT
        sheet = Sheet(WIDTH, bottom + 58, self.title, self.description)
        scale = Scale(self.first, self.last)
        heading(sheet, self.title, self.program)
        for start in range(self.first, self.last, self.size):
            middle = scale(start + self.size / 2)
            sheet.text(middle, HEAD - 12, f"window {start} s – {start + self.size} s", "quiet s m")
        scale.axis(sheet, bottom, self.size, top)
        self._draw_past(sheet, scale, happened)
        for row, epoch in enumerate(epochs):
            self._draw_epoch(sheet, scale, happened, epoch, top + row * self.ROW_HEIGHT)
        marks = [("watermark", "event time at the end of the epoch"), ("past", "the past")]
        if happened.aside or happened.dropped:
            marks.append(("late", "too late for its window"))
        legend(sheet, bottom + 44, epochs, marks)
        return sheet

    def _draw_past(self, sheet: Sheet, scale: Scale, happened: Happened) -> None:
        """What lies behind event time while the next epoch is read."""
        for row, epoch in enumerate(happened.epochs):
            second = happened.watermarks[epoch]
            y = HEAD + (row + 1) * self.ROW_HEIGHT
            if second is not None and row + 1 < len(happened.epochs):
                sheet.box(LEFT, y, scale(second) - LEFT, self.ROW_HEIGHT, "ink past", 0)
                sheet.line(scale(second), y, scale(second), y + self.ROW_HEIGHT, f"{epoch_look(epoch)} thick")

    def _draw_epoch(self, sheet: Sheet, scale: Scale, happened: Happened, epoch: int, y: float) -> None:
        look = epoch_look(epoch)
        sheet.text(LEFT - 14, y + 26, f"epoch {epoch}", f"{look} b r")
        sheet.line(20, y + self.ROW_HEIGHT, WIDTH - 20, y + self.ROW_HEIGHT, "grid")
        for _, record in _of(epoch, happened.read):
            sheet.dot(scale(record.second), y + 22, str(record.value), f"{look} bare")
        for fate, words in ((happened.aside, "to the side"), (happened.dropped, "dropped")):
            for _, record in _of(epoch, fate):
                sheet.ring(scale(record.second), y + 22, "late")
                sheet.text(scale(record.second) + 18, y + 26, words, "late s b")
        earlier = {(fired.start, fired.end) for before, fired in happened.results if before < epoch}
        for _, fired in _of(epoch, happened.results):
            again = ", again" if (fired.start, fired.end) in earlier else ""
            x, width = scale(fired.start) + 3, scale(fired.end) - scale(fired.start) - 6
            sheet.band(x, y + 43, width, ROW - 6, look)
            sheet.text(x + width / 2, y + 57, f"Σ {fired.total}{again}", f"{look} s b m")
        second = happened.watermarks[epoch]
        if second is not None:
            sheet.flag(scale(second), y + self.ROW_HEIGHT - 1, f"{look} bare")


def _of(epoch: int, seen: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return [each for each in seen if each[0] == epoch]


# --- splits: what holds event time back -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Splits:
    """A story of two splits: event time is that of the slower one, until it is declared idle."""

    title: str
    description: str
    program: str
    splits: Mapping[str, Sequence[Any]]
    idle_after_ms: int
    epochs: int
    last: int

    TOP = 46
    ROW_HEIGHT = 66

    def draw(self) -> Sheet:
        bottom = self.TOP + self.epochs * self.ROW_HEIGHT
        sheet = Sheet(WIDTH, bottom + 58, self.title, self.description)
        scale = Scale(0, self.last, left=150)
        heading(sheet, self.title, self.program)
        scale.axis(sheet, bottom, 10, self.TOP)
        read, places = observe_splits(self.splits, self.idle_after_ms, self.epochs)
        for row, epoch in enumerate(range(1, self.epochs + 1)):
            self._draw_epoch(sheet, scale, epoch, [r for e, r in read if e == epoch], places[epoch], row)
        marks = [("watermark", "event time of the source at the end of the epoch"), ("past", "the past")]
        legend(sheet, bottom + 44, range(1, self.epochs + 1), marks)
        return sheet

    def _draw_epoch(
        self, sheet: Sheet, scale: Scale, epoch: int, read: Sequence[Record], place: TimePlace, row: int
    ) -> None:
        y, look = self.TOP + row * self.ROW_HEIGHT, epoch_look(epoch)
        event_time = seconds_of(place.watermark)
        if event_time is not None:
            sheet.box(scale.left, y, scale(event_time) - scale.left, self.ROW_HEIGHT, "ink past", 0)
            sheet.line(scale(event_time), y, scale(event_time), y + self.ROW_HEIGHT, f"{look} thick")
        sheet.text(20, y + 24, f"epoch {epoch}", f"{look} b")
        for number, (name, split) in enumerate(sorted(_splits_of(place).items())):
            middle = y + 20 + number * 27
            reached = seconds_of(split.watermark)
            words, ink = (f"{name}, idle", "quiet r") if split.idle else (name, "ink r")
            sheet.text(scale.left - 14, middle + 4, words, ink)
            if reached is not None:
                colour = "quiet" if split.idle else look
                sheet.line(scale.left, middle, scale(reached), middle, f"{colour} line" + " dash" * split.idle)
                sheet.line(scale(reached), middle - 6, scale(reached), middle + 6, f"{colour} line")
            for record in read:
                if record.key == name:
                    sheet.dot(scale(record.second), middle, str(record.second), f"{look} bare")
        if event_time is not None:
            sheet.flag(scale(event_time), y + self.ROW_HEIGHT - 1, f"{look} bare")
        sheet.line(20, y + self.ROW_HEIGHT, WIDTH - 20, y + self.ROW_HEIGHT, "grid")


def _splits_of(source: TimePlace) -> dict[str, TimePlace]:
    return {place.name.removeprefix("split "): place for place in source.inputs}


# --- pairs: an interval join ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Two streams of one key, the time in which each left record looks for partners, and the pairs that were found."""

    title: str
    description: str
    program: str
    left: Sequence[Record]
    right: Sequence[Record]
    bounds: tuple[int, int]
    last: int

    def draw(self) -> Sheet:
        pairs = observe_pairs(self.left, self.right, self.bounds)
        lower, upper = self.bounds
        top, upper_lane = HEAD - 18, HEAD + 16
        rows = in_rows([(record.second + lower, record.second + upper) for record in self.left])
        lane = upper_lane + 44 + (max(rows) + 1) * ROW
        bottom = lane + 32
        sheet = Sheet(WIDTH, int(bottom) + 58, self.title, self.description)
        scale = Scale(0, self.last)
        heading(sheet, self.title, self.program)
        scale.axis(sheet, bottom, 5, top)
        sheet.text(LEFT - 14, upper_lane + 4, "left", "ink b r")
        sheet.text(LEFT - 14, lane + 4, "right", "ink b r")
        place_of = {record: (upper_lane + 26 + row * ROW, epoch_look(number))
                    for number, (record, row) in enumerate(zip(self.left, rows, strict=True), 1)}  # fmt: skip
        for record, (y, look) in place_of.items():
            sheet.line(scale(record.second), upper_lane, scale(record.second), y, f"{look} line")
        for right in self.right:
            partners = [left for left, partner in pairs if partner == right]
            for number, left in enumerate(partners):
                x, (y, look) = scale(right.second) + 5 * number - 2.5 * (len(partners) - 1), place_of[left]
                sheet.line(x, y + ROW - 7, x, lane, f"{look} thick")
        for record, (y, look) in place_of.items():
            sheet.band(scale(record.second + lower), y, scale(upper) - scale(lower), ROW - 6, look)
            words = f"{record.second + lower} s to {record.second + upper} s"
            sheet.text(scale(record.second + (lower + upper) / 2), y + 14, words, f"{look} s b m")
            sheet.dot(scale(record.second), upper_lane, str(record.value), f"{look} bare")
        paired = {right for _, right in pairs}
        for record in self.right:
            sheet.dot(scale(record.second), lane, str(record.value), "ink bare" if record in paired else "quiet bare")
        told = ", ".join(f"({left.value}, {right.value})" for left, right in sorted(pairs))
        sheet.text(20, bottom + 44, f"pairs: {told}", "ink s")
        sheet.text(WIDTH - 20, bottom + 44, "a bar is the time in which a left record finds its partners", "quiet s r")
        return sheet
