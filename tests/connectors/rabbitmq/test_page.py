"""The program on the page about RabbitMQ runs."""

from __future__ import annotations

import pytest

from flott.datastream.connectors.rabbitmq import RMQConnectionConfig
from tests.connectors.pages import run_page
from tests.connectors.rabbitmq.test_rabbitmq import content, fill

pytestmark = pytest.mark.connectors


def test_the_program_of_the_page_runs(rabbit: RMQConnectionConfig) -> None:
    fill(rabbit, "orders", [b"tea", b"jam"])
    fill(rabbit, "answers", [])
    run_page(
        "rabbitmq.md",
        {"localhost:5672": f"127.0.0.1:{rabbit.port}"},
        until=lambda: len(content(rabbit, "answers")) >= 2,
    )
    assert sorted(value for _, value in content(rabbit, "answers")) == ["JAM", "TEA"]
