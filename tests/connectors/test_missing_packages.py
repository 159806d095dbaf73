"""A program that uses a connector without its client library is told which extra to install, before anything runs."""

from __future__ import annotations

import sys

import pytest

from tests.connectors.pages import run_page

#: The page with the program, the package that is missing, and the extra that brings it.
MISSING = [
    ("cassandra.md", "cassandra", "cassandra"),
    ("delta.md", "deltalake", "delta"),
    ("dynamodb.md", "boto3", "dynamodb"),
    ("hdfs.md", "hdfs_native", "hdfs"),
    ("iceberg.md", "pyiceberg", "iceberg"),
    ("kafka-sink.md", "confluent_kafka", "kafka"),
    ("kinesis.md", "boto3", "kinesis"),
    ("mongodb.md", "pymongo", "mongodb"),
    ("mqtt.md", "paho", "mqtt"),
    ("mysql-cdc.md", "pymysql", "mysql-cdc"),
    ("nats.md", "nats", "nats"),
    ("postgres-cdc.md", "psycopg", "postgres"),
    ("pulsar.md", "pulsar", "pulsar"),
    ("rabbitmq.md", "pika", "rabbitmq"),
    ("redis.md", "redis", "redis"),
    ("sqs.md", "boto3", "sqs"),
]


@pytest.mark.parametrize(("page", "package", "extra"), MISSING, ids=[page for page, _, _ in MISSING])
def test_a_missing_package_is_named_with_its_extra(
    page: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(Exception, match=rf"pip install 'flott\[{extra}\]'") as caught:
        run_page(page, {})
    assert "ModuleNotFoundError" not in str(caught.value).partition("\n")[0]
