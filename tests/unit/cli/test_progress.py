"""How far a job is, in numbers and in one line."""

from __future__ import annotations

from typing import Any

from flott.cli.drawings.progress import END_OF_INPUT, NO_WATERMARK, progress_of

DETAIL: dict[str, Any] = {
    "jid": "a" * 32, "name": "orders", "state": "RUNNING", "duration": 5000, "now": 61_000, "parallelism": 2,
    "restarts": 0, "records-per-second": 1234.5,
}  # fmt: skip
CHECKPOINTS: dict[str, Any] = {
    "latest": {"completed": {"id": 7, "latest_ack_timestamp": 59_500, "state_size": 2048}},
}


def metrics(**values: object) -> list[dict[str, str]]:
    return [{"id": name, "value": str(value)} for name, value in values.items()]


def test_a_running_job_says_epoch_rate_lag_watermark_and_age_of_its_checkpoint() -> None:
    found = progress_of(DETAIL, CHECKPOINTS, metrics(pendingRecords=12_000, currentLowWatermark=1_700_000_000_000))
    assert found.line() == (
        "orders  ·  running  ·  epoch 7  ·  1,234 records/s  ·  lag 12,000  ·  watermark 2023-11-14 22:13:20"
        "  ·  checkpoint 1.5 s ago, state 2.0 KB"
    )


def test_what_is_not_known_is_not_said() -> None:
    found = progress_of({**DETAIL, "state": "CREATED"}, {"latest": {"completed": None}}, [])
    assert found.line() == "orders  ·  created"
    assert (found.epoch, found.lag, found.watermark, found.checkpoint_age_ms) == (None, None, None, None)


def test_restarts_and_what_a_job_waits_for_are_said() -> None:
    detail = {**DETAIL, "restarts": 2, "waiting-for": "The only slot is busy."}
    line = progress_of(detail, CHECKPOINTS, metrics(currentLowWatermark=END_OF_INPUT)).line()
    assert "waits for slots: The only slot is busy." in line
    assert "watermark end of input" in line
    assert line.endswith("2 restarts")


def test_a_watermark_that_has_not_come_is_none() -> None:
    assert progress_of(DETAIL, CHECKPOINTS, metrics(currentLowWatermark=NO_WATERMARK)).watermark is None
    assert progress_of(DETAIL, CHECKPOINTS, metrics(currentLowWatermark="NaN")).watermark is None


def test_the_summary_tells_how_it_ended() -> None:
    detail = {**DETAIL, "state": "FAILED", "restarts": 1}
    found = progress_of(detail, CHECKPOINTS, metrics(numRecordsIn=10_000, numRecordsOut=50))
    assert found.ended
    expected = "orders failed in 5.0 s, 10,000 records read (2,000/s), 50 written, last epoch 7, 1 restart"
    assert found.summary() == expected
