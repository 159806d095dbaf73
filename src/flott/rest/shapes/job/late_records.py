"""The late-data ledger of a job: what windowed and timed operators did with records that came too late. Pure."""

from __future__ import annotations

from typing_extensions import TypedDict

from flott.common._late_records import LedgerEntry
from flott.rest.shapes.live.numbers import event_time
from flott.runtime.jobmanager.views.job_view import JobView


class LateRecord(TypedDict):
    record: str
    timestamp: int
    watermark: int | None
    behind: int | None


LedgerLine = TypedDict(
    "LedgerLine",
    {
        "id": str,
        "operator": str,
        "vertex": str | None,
        "records-in": int,
        "processed": int,
        "late": int,
        "dropped": int,
        "samples": list[LateRecord],
    },
)


class LateDataReply(TypedDict):
    operators: list[LedgerLine]


def late_ledger(job: JobView) -> LateDataReply:
    """Return the ledger, in the order in which operators first appeared in it."""
    vertices = {operator.id: vertex.id for vertex in job.vertices for operator in vertex.operators}
    return {"operators": [_line(ident, vertices.get(ident), entry) for ident, entry in job.ledger.items()]}


def _line(ident: str, vertex: str | None, entry: LedgerEntry) -> LedgerLine:
    return {
        "id": ident,
        "operator": entry.operator,
        "vertex": vertex,
        "records-in": entry.records_in,
        "processed": entry.processed,
        "late": entry.late,
        "dropped": entry.dropped,
        "samples": [
            {
                "record": sample.record,
                "timestamp": sample.timestamp,
                "watermark": event_time(sample.watermark),
                "behind": sample.behind_ms if event_time(sample.watermark) is not None else None,
            }
            for sample in entry.samples
        ],
    }
