"""A program promises as much as its weakest source or sink, and shows it in its plan, in REST and in its log."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flott.common.serialization import Encoder
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import Guarantee
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.file_system import FileSink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.graph.guarantees import weakest_link
from flott.rest.shapes.job.job_detail import job_detail
from flott.testing.harness import in_process, live
from tests.unit.runtime.jobmanager.tracked_jobs import recorded


@dataclass(frozen=True)
class Webhook(DiscardSink):
    @property
    def guarantee(self) -> Guarantee | None:
        return Guarantee.AT_LEAST_ONCE


def _program(tmp_path: Path, *more: DiscardSink) -> Any:
    env = in_process(1)
    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()).name("files")
    for sink in more:
        numbers.sink_to(sink).name(type(sink).__name__)
    return env


def test_a_program_of_exact_connectors_is_exact(tmp_path: Path):
    link = weakest_link(_program(tmp_path, DiscardSink()).get_stream_graph().nodes)
    assert link is not None
    assert link.guarantee is Guarantee.EXACTLY_ONCE


def test_the_weakest_link_counts(tmp_path: Path):
    link = weakest_link(_program(tmp_path, Webhook()).get_stream_graph().nodes)
    assert link is not None
    assert (link.name, link.guarantee) == ("Sink: Webhook", Guarantee.AT_LEAST_ONCE)


def test_the_plan_shows_what_every_source_and_sink_promises(tmp_path: Path):
    nodes = json.loads(_program(tmp_path, Webhook(), DiscardSink()).get_execution_plan())["nodes"]
    assert [node.get("guarantee") for node in nodes] == ["exactly-once", "exactly-once", "at-least-once", None]


def test_the_plan_shows_the_weakest_link(tmp_path: Path):
    plan = json.loads(_program(tmp_path, Webhook(), DiscardSink()).get_execution_plan())
    assert plan["weakest-link"] == {"guarantee": "at-least-once", "operator": "Sink: Webhook"}


def test_the_log_of_a_job_begins_with_its_weakest_link(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flott")
    live(_program(tmp_path / "out", Webhook()), tmp_path / "job")
    [line] = [record.getMessage() for record in caplog.records if "promises" in record.getMessage()]
    assert line.endswith("promises at-least-once, as its weakest link 'Sink: Webhook' does.")


def test_rest_shows_the_weakest_link(tmp_path: Path):
    recorder, _ = recorded(_program(tmp_path / "out", Webhook()), tmp_path / "job")
    detail = job_detail(recorder.view(), now_ms=0)
    assert detail["weakest-link"] == {"guarantee": "at-least-once", "operator": "Sink: Webhook"}


def test_guarantees_are_ordered_by_what_they_promise():
    assert sorted(Guarantee, key=lambda guarantee: guarantee.strength) == [
        Guarantee.NONE,
        Guarantee.AT_LEAST_ONCE,
        Guarantee.IDEMPOTENT,
        Guarantee.EXACTLY_ONCE,
    ]
