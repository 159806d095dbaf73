"""The report of ``explain_watermark``: which split, operator or source holds event time back.

The runtime creates it (``runtime.jobmaster.time_report``). This module contains the values and their text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from textwrap import wrap

from flott.common._durations import rounded_millis
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK

#: The number of other splits shown under a source.
SPLITS_SHOWN = 4
TEXT_WIDTH = 110


class HoldCause(Enum):
    """Why event time does not advance."""

    NOT_STARTED = "no epoch is complete yet"
    END_OF_INPUT = "all input has been read"
    FOLLOWS_CLOCK = "ingestion time"
    NO_WATERMARKS = "the strategy makes no watermarks"
    NO_TIMESTAMPS = "the records have no timestamps"
    SILENT_GENERATOR = "the generator has not emitted a watermark"
    NO_SPLIT = "the source has nothing to read from"
    NEVER_READ = "no record came so far"
    SILENT = "no record comes"
    BACKLOG = "input is waiting to be read"
    SLOWEST = "its records are the oldest"
    PAUSED = "paused by watermark alignment"
    ALL_IDLE = "everything is idle"


@dataclass(frozen=True)
class SentenceInstant:
    """A moment in a sentence. As text it is UTC; a page writes it in the zone of its reader."""

    at_ms: int
    exact: bool = False  #: to the millisecond

    def __str__(self) -> str:
        return f"{instant_text(self.at_ms, 'milliseconds' if self.exact else 'seconds')} UTC"


#: A sentence whose moments are data.
Sentence = tuple[str | SentenceInstant, ...]


def sentence_text(sentence: Sentence) -> str:
    """Return a sentence as text.

    >>> sentence_text(("It stands since ", SentenceInstant(1_700_000_000_000), "."))
    'It stands since 2023-11-14 22:13:20 UTC.'
    """
    return "".join(map(str, sentence))


@dataclass(frozen=True)
class Hold:
    """One cause that holds event time back, and its remedy."""

    cause: HoldCause
    operator: str
    watermark: int
    since_ms: int | None  #: the time since which it has not moved; None if unknown
    finding: str  #: a sentence; its moments are UTC
    remedy: str  #: a sentence; empty if nothing is to be done
    split: str | None = None  #: the split of a source, or the subtask of a generator in the middle of a stream
    finding_parts: Sentence = ()  #: the same sentences, with their moments as data
    remedy_parts: Sentence = ()


@dataclass(frozen=True)
class TimePlace:
    """Event time at an operator, a source or a split, with its inputs."""

    name: str
    watermark: int
    idle: bool = False
    paused: bool = False
    holds: bool = False
    since_ms: int | None = None  #: the time since which its event time has not moved
    inputs: tuple[TimePlace, ...] = ()
    id: str = ""  #: of the operator, or of its split; a place that feeds several others is in the report again


@dataclass(frozen=True)
class WatermarkReport:
    """The event time of a whole job at one moment. ``str(report)`` is a text; times of day are UTC."""

    job_name: str
    at_ms: int
    epoch: int  #: the last completed epoch; 0 if there is none
    places: tuple[TimePlace, ...]  #: from the sinks up to the sources
    holds: tuple[Hold, ...]  #: what limits event time, usually one cause

    @property
    def watermark(self) -> int:
        """Return the watermark of the slowest sink."""
        return min((place.watermark for place in self.places), default=MIN_WATERMARK)

    def __str__(self) -> str:
        when = f"after epoch {self.epoch}" if self.epoch else "before its first epoch"
        lines = [f"Event time of {self.job_name!r} at {instant_text(self.at_ms)} UTC, {when}", ""]
        rows = [row for place in self.places for row in self._rows(place, "", "")]
        width = max((len(name) for name, _, _ in rows), default=0)
        lines += [f"  {name:<{width}}   {time:<23}{remark}".rstrip() for name, time, remark in rows]
        for hold in self.holds:
            lines += ["", *wrap(hold.finding, TEXT_WIDTH, initial_indent="▶ ", subsequent_indent="  ")]
            lines += wrap(hold.remedy, TEXT_WIDTH, initial_indent="  ", subsequent_indent="  ")
        return "\n".join(lines)

    def _rows(self, place: TimePlace, first: str, rest: str) -> Iterator[tuple[str, str, str]]:
        yield first + place.name, watermark_text(place.watermark), self._remark(place)
        for inner in place.inputs:
            branch, stem = ("└─ ", "   ") if inner is place.inputs[-1] else ("├─ ", "│  ")
            yield from self._rows(inner, rest + branch, rest + stem)

    def _remark(self, place: TimePlace) -> str:
        remarks = [word for word, is_so in (("idle", place.idle), ("paused", place.paused)) if is_so]
        if place.since_ms is not None and MIN_WATERMARK < place.watermark < MAX_WATERMARK:
            remarks.append(f"unmoved for {rounded_millis(self.at_ms - place.since_ms)}")
        text = "   " + ", ".join(remarks) if remarks else ""
        return text + "   ◀ holds event time back" if place.holds else text


def watermark_text(watermark: int) -> str:
    """Return a watermark as text.

    >>> watermark_text(1_700_000_000_000), watermark_text(MIN_WATERMARK), watermark_text(MAX_WATERMARK)
    ('2023-11-14 22:13:20.000', 'none', 'end of input')
    """
    if watermark <= MIN_WATERMARK:
        return "none"
    if watermark >= MAX_WATERMARK:
        return "end of input"
    return instant_text(watermark, "milliseconds")


def watermark_part(watermark: int) -> str | SentenceInstant:
    """Return a watermark as a part of a sentence."""
    is_time = MIN_WATERMARK < watermark < MAX_WATERMARK
    return SentenceInstant(watermark, exact=True) if is_time else watermark_text(watermark)


def instant_text(millis: int, precision: str = "seconds") -> str:
    """Return a time of day in UTC, or the number itself if it is outside of the calendar."""
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).replace(tzinfo=None).isoformat(" ", precision)
    except (OverflowError, ValueError, OSError):
        return str(millis)
