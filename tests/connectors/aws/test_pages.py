"""The programs on the pages about Kinesis and SQS run, against moto."""

from __future__ import annotations

import pytest

from tests.connectors.aws.test_kinesis import content as content_of_stream
from tests.connectors.aws.test_kinesis import create as create_stream
from tests.connectors.aws.test_sqs import content as content_of_queue
from tests.connectors.aws.test_sqs import create as create_queue
from tests.connectors.aws.test_sqs import fill
from tests.connectors.pages import run_page

pytestmark = pytest.mark.connectors

AMAZON = '{"aws.region": "eu-west-1"}'


def test_the_program_of_the_page_about_kinesis_runs(amazon: dict[str, str]) -> None:
    orders, answers = create_stream(amazon, 2, [b"tea", b"jam"]), create_stream(amazon)
    changes = {AMAZON: repr(amazon), '("orders", Simple': f'("{orders}", Simple', '"answers"': f'"{answers}"'}
    run_page("kinesis.md", changes, until=lambda: len(content_of_stream(amazon, answers)) >= 2)
    assert sorted(content_of_stream(amazon, answers)) == ["JAM", "TEA"]


def test_the_program_of_the_page_about_sqs_runs(amazon: dict[str, str]) -> None:
    orders, answers = create_queue(amazon), create_queue(amazon, fifo=True)
    fill(amazon, orders, [b"tea", b"jam"])
    changes = {AMAZON: repr(amazon), 'f"{queues}/orders"': repr(orders), 'f"{queues}/answers.fifo"': repr(answers)}
    found: list[str] = []

    def answered() -> bool:
        found[:] = content_of_queue(amazon, answers)
        return len(found) >= 2

    run_page("sqs.md", changes, until=answered)
    assert sorted(found) == ["JAM", "TEA"]
