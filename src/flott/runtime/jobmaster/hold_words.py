"""Why event time stands where it does, in words: what was found, and what would release it. Pure. Driver side."""

from __future__ import annotations

from dataclasses import dataclass

from flott.common._durations import rounded_millis
from flott.common._watermark_report import HoldCause, Sentence, SentenceInstant, watermark_part
from flott.common.watermark_strategy import WatermarkStrategy


@dataclass(frozen=True)
class HoldFacts:
    """What is known of the place that holds event time back."""

    operator: str
    part: str | None  #: "split 3", "subtask 0"; None: the operator as a whole
    watermark: int
    since_ms: int | None  #: since when the watermark has not moved
    active_at_ms: int | None  #: when its last record came, or since when one is waited for
    strategy: WatermarkStrategy
    now_ms: int

    @property
    def name(self) -> str:
        """Return the name as it begins a sentence."""
        return self.operator if self.part is None else f"{self.part.capitalize()} of {self.operator}"

    @property
    def last_record(self) -> Sentence:
        """Return when its last record came."""
        if self.active_at_ms is None:
            return ("the start",)
        ago = self.now_ms - self.active_at_ms
        return SentenceInstant(self.active_at_ms), f" ({rounded_millis(ago if ago < 1000 else ago - ago % 1000)} ago)"


def describe(cause: HoldCause, facts: HoldFacts) -> tuple[Sentence, Sentence]:
    """Return what was found, and what to do about it (nothing, if empty)."""
    name, reached, last_record = facts.name, watermark_part(facts.watermark), facts.last_record
    match cause:
        case HoldCause.NOT_STARTED:
            return ("No epoch is complete yet: nothing has a time.",), ()
        case HoldCause.END_OF_INPUT:
            return ("All input has been read: event time is at its end.",), ()
        case HoldCause.FOLLOWS_CLOCK:
            return (f"{facts.operator} is in ingestion time: event time follows the clock.",), ()
        case HoldCause.NO_WATERMARKS:
            return (
                (f"{facts.operator} has no watermarks: its strategy is WatermarkStrategy.no_watermarks().",),
                (
                    "Give it one, such as for_bounded_out_of_orderness(...), or call"
                    " assign_timestamps_and_watermarks(...) further down. A program that uses processing time only"
                    " needs none.",
                ),
            )
        case HoldCause.NO_TIMESTAMPS:
            return (
                (f"{name} has no watermark, because its records have no timestamps.",),
                ("Say where their time is: with_timestamp_assigner(...) on the watermark strategy.",),
            )
        case HoldCause.SILENT_GENERATOR:
            since: Sentence = () if facts.since_ms is None else (" since ", SentenceInstant(facts.since_ms))
            last = (f"{name} gets records, the last at ", *last_record)
            still = (", but its watermark generator has not moved event time", *since)
            return (
                (*last, *still, "; its watermark is ", reached, "."),
                (
                    "Emit a watermark in on_event, or in on_periodic_emit, which is called at the end of every epoch"
                    " that read records.",
                ),
            )
        case HoldCause.NO_SPLIT:
            silent = f"{name} has had nothing to read since "
            return (silent, *last_record, "; its watermark is ", reached, "."), _patience(facts)
        case HoldCause.NEVER_READ:
            return (f"{name} has had no record so far, since ", *last_record, "."), _patience(facts)
        case HoldCause.SILENT:
            silent = f"{name} has had no record since "
            return (silent, *last_record, "; its watermark is ", reached, "."), _patience(facts)
        case HoldCause.BACKLOG:
            return (
                (f"{name} is the slowest, at ", reached, ", and more input is waiting to be read."),
                ("Event time follows as it is read. If it stays behind, the job needs more parallelism.",),
            )
        case HoldCause.SLOWEST:
            return (f"{name} is the slowest, at ", reached, "; its last record came at ", *last_record, "."), ()
        case HoldCause.PAUSED:
            drift = rounded_millis(facts.strategy.max_drift_ms or 0)
            return (
                (
                    f"{name} is paused at ",
                    reached,
                    f": it is more than {drift} ahead of the slowest of alignment group"
                    f" {facts.strategy.alignment_group!r}.",
                ),
                ("It goes on when the slowest has caught up.",),
            )
        case HoldCause.ALL_IDLE:
            return (
                (
                    f"{name} is idle, since ",
                    *last_record,
                    ", and so is everything else: event time stands at ",
                    reached,
                    ".",
                ),
                ("It goes on with the next record.",),
            )


def _patience(facts: HoldFacts) -> Sentence:
    """Return when a silent split or subtask counts as idle."""
    timeout = facts.strategy.idle_timeout_ms
    if timeout is None:
        return (
            "Event time goes on with its next record. To go on without it when it is silent, declare it idle:"
            " with_idleness(Duration.of_minutes(1)) on its watermark strategy.",
        )
    deadline = (facts.active_at_ms if facts.active_at_ms is not None else facts.now_ms) + timeout
    return "It counts as idle from ", SentenceInstant(deadline), " on, and event time goes on without it."
