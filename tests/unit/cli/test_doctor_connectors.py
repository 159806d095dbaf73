"""``flott doctor`` tells which connectors can be used."""

from __future__ import annotations

from flott.cli.diagnosis import _connectors, requirements

REQUIRED = [
    "pyspark<5,>=4.3",
    'confluent-kafka>=2.3; extra == "kafka"',
    "kafka-python>=2.2; extra == 'kafka'",
    'redis>=5; extra == "redis"',
    'ruff>=0.6; extra == "dev"',
]


def test_connectors_with_all_their_packages_are_told_apart_from_others():
    installed = {"confluent-kafka": "2.16", "kafka-python": "3.0"}
    text = _connectors(REQUIRED, installed.get).found
    assert text == "kafka; more with pip install 'flott[NAME]': redis"


def test_a_connector_without_one_of_its_packages_cannot_be_used():
    assert _connectors(REQUIRED, {"kafka-python": "3.0", "redis": "5"}.get).found.startswith("redis; more")


def test_the_extras_of_the_package_are_found():
    assert any("kafka" in requirement for requirement in requirements())
