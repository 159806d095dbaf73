"""The endpoint that explains what holds event time back in a job. It is Flott's own; Flink has no such endpoint."""

from __future__ import annotations

from typing_extensions import TypedDict

from flott.common._watermark_report import Hold, Sentence, SentenceInstant, TimePlace, WatermarkReport
from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.waiting import carried_out
from flott.runtime.orders import ExplainWatermark


class InstantMessage(TypedDict):
    """A moment in a sentence, for pages that write it in the zone of their reader."""

    at: int
    exact: bool  #: to the millisecond


class HoldMessage(TypedDict):
    cause: str
    operator: str
    split: str | None
    watermark: int
    since: int | None
    finding: str
    remedy: str
    finding_parts: list[str | InstantMessage]
    remedy_parts: list[str | InstantMessage]


class PlaceMessage(TypedDict):
    id: str
    name: str
    watermark: int
    idle: bool
    paused: bool
    holds: bool
    since: int | None
    inputs: list[PlaceMessage]


class WatermarkMessage(TypedDict):
    """The watermarks of a job. ``text`` is the same in readable form."""

    job_name: str
    at: int
    epoch: int
    watermark: int
    places: list[PlaceMessage]
    holds: list[HoldMessage]
    text: str


async def watermark(call: RestCall) -> WatermarkMessage:
    """Return what holds event time back."""
    return watermark_message(await carried_out(lambda: call.gateway.order(call.job_id, ExplainWatermark())))


def watermark_message(report: WatermarkReport) -> WatermarkMessage:
    """Return a watermark report as JSON."""
    return {
        "job_name": report.job_name,
        "at": report.at_ms,
        "epoch": report.epoch,
        "watermark": report.watermark,
        "places": [_place(place) for place in report.places],
        "holds": [_hold(hold) for hold in report.holds],
        "text": str(report),
    }


def _place(place: TimePlace) -> PlaceMessage:
    return {
        "id": place.id,
        "name": place.name,
        "watermark": place.watermark,
        "idle": place.idle,
        "paused": place.paused,
        "holds": place.holds,
        "since": place.since_ms,
        "inputs": [_place(inner) for inner in place.inputs],
    }


def _hold(hold: Hold) -> HoldMessage:
    return {
        "cause": hold.cause.name,
        "operator": hold.operator,
        "split": hold.split,
        "watermark": hold.watermark,
        "since": hold.since_ms,
        "finding": hold.finding,
        "remedy": hold.remedy,
        "finding_parts": _parts(hold.finding_parts or (hold.finding,)),
        "remedy_parts": _parts(hold.remedy_parts or (hold.remedy,)),
    }


def _parts(sentence: Sentence) -> list[str | InstantMessage]:
    return [
        {"at": part.at_ms, "exact": part.exact} if isinstance(part, SentenceInstant) else part
        for part in sentence
        if part
    ]


ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs/:jobid/flott/watermark",
        watermark,
        WatermarkMessage,
        "Which split, operator or source holds event time back",
        "jobs",
        shared=True,
    ),
)
