"""The sink of documents against a real OpenSearch."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.connectors._stores import BulkLimits, RetryPolicy
from flott.datastream.connectors.base import BadRecord, OnError, WriterContext
from flott.datastream.connectors.elasticsearch import ElasticsearchEmitter, ElasticsearchSink
from flott.errors import ConnectorError
from flott.testing.harness import in_process
from flott.testing.sinks import Ledger, LedgerSink, commit_permit
from tests.connectors.pages import run_page
from tests.servers.opensearch import OpenSearchServer

pytestmark = pytest.mark.connectors

_names = count()


@pytest.fixture
def index() -> str:
    return f"index-{next(_names)}"


def sink_for(server: OpenSearchServer, index: str, key_field: str | None = "id", **settings: Any) -> ElasticsearchSink:
    settings = {"retries": RetryPolicy(max_attempts=3, initial_delay_ms=10), **settings}
    return ElasticsearchSink(
        (f"http://{server.address}",), ElasticsearchEmitter.static_index(index, key_field), **settings
    )


def write(sink: ElasticsearchSink, values: list[Any], now_ms: int = 1000, attempt: str = "a") -> list[Any]:
    writer = sink.create_writer(WriterContext(0, 1, now_ms, attempt, "job", "op", now_ms))
    try:
        writer.write(values, None)
        return writer.prepare_commit()
    finally:
        writer.close()


def test_documents_are_written_replaced_and_deleted_by_key(opensearch: OpenSearchServer, index: str):
    sink = sink_for(opensearch, index, limits=BulkLimits(max_actions=3))
    write(sink, [Row(id=number, name=f"n{number}") for number in range(10)])
    write(sink, [Row(id=1, name="changed"), Row.of_kind(RowKind.DELETE, id=2, name="n2")], now_ms=2000)
    write(sink, [Row.of_kind(RowKind.DELETE, id=99, name="was never there")], now_ms=2500)
    found = opensearch.documents(index)
    assert len(found) == 9
    assert found["1"] == {"id": 1, "name": "changed"}
    assert "2" not in found


def test_a_repeated_epoch_writes_again_and_a_late_writer_of_an_older_epoch_changes_nothing(
    opensearch: OpenSearchServer, index: str
):
    sink = sink_for(opensearch, index)
    write(sink, [{"id": 1, "by": "failed attempt"}], now_ms=1000)
    write(sink, [{"id": 1, "by": "repeated attempt"}], now_ms=1000, attempt="b")
    assert opensearch.documents(index)["1"]["by"] == "repeated attempt"
    write(sink, [{"id": 1, "by": "later epoch"}, {"id": 2, "by": "later epoch"}], now_ms=2000)
    write(sink, [Row.of_kind(RowKind.DELETE, id=2)], now_ms=3000)
    write(sink, [{"id": 1, "by": "zombie"}, {"id": 2, "by": "zombie"}], now_ms=1000, attempt="z")
    assert opensearch.documents(index) == {"1": {"id": 1, "by": "later epoch"}}


def test_an_attempt_that_failed_after_more_requests_is_written_over(opensearch: OpenSearchServer, index: str):
    failed = sink_for(opensearch, index, limits=BulkLimits(buffer_actions=1))
    writer = failed.create_writer(WriterContext(0, 1, 1, "a", "job", "op", 1000))
    for number in range(5):
        writer.write([{"id": 1, "state": f"intermediate {number}"}], None)  # five buffers, then it dies
    writer.close()
    write(sink_for(opensearch, index), [{"id": 1, "state": "final"}], attempt="b")
    assert opensearch.documents(index)["1"]["state"] == "final"


def test_documents_without_a_key_are_not_doubled_by_a_repeated_epoch(opensearch: OpenSearchServer, index: str):
    sink = sink_for(opensearch, index, key_field=None)
    for attempt in "ab":
        write(sink, [{"n": number} for number in range(20)], attempt=attempt)
    write(sink, [{"n": 20}], now_ms=2000)
    assert sorted(one["n"] for one in opensearch.documents(index).values()) == list(range(21))


def test_a_mapping_conflict_fails_skips_or_becomes_a_dead_letter(opensearch: OpenSearchServer, index: str):
    mapping = {"mappings": {"properties": {"price": {"type": "integer"}}}}
    opensearch.request("PUT", f"/{index}", mapping)
    records = [{"id": 1, "price": 1}, {"id": 2, "price": "cheap"}, {"id": 3, "price": 3}]
    with pytest.raises(ConnectorError, match=rf"rejected document 2 of index {index}: mapper_parsing.*price.*cheap"):
        write(sink_for(opensearch, index), records)
    write(sink_for(opensearch, index, on_rejected=OnError.skip()), records)
    assert sorted(opensearch.documents(index)) == ["1", "3"]
    ledger = Ledger(f"letters of {index}")
    sink = sink_for(opensearch, index, on_rejected=OnError.dead_letter(LedgerSink(ledger)))
    committables = write(sink, records)
    committer = sink.create_committer()
    assert committer is not None
    for replay in (False, True):
        committer.commit(commit_permit(1, 0, replay=replay), committables)
    (letter,) = ledger.records
    assert isinstance(letter, BadRecord)
    assert (letter.key, letter.value) == (b"2", b'{"id":2,"price":"cheap"}')


def test_a_job_survives_a_restart_of_the_server(opensearch: OpenSearchServer, index: str):
    sink = sink_for(opensearch, index, retries=RetryPolicy(max_attempts=60, initial_delay_ms=500, max_delay_ms=1000))
    write(sink, [{"id": 0}])
    opensearch.process.kill()
    opensearch.process.launch()
    env = in_process(1)
    env.from_collection([{"id": number} for number in range(1, 50)]).sink_to(sink)
    env.execute("while it starts")
    opensearch.process.await_answer()
    assert len(opensearch.documents(index)) == 50


def test_the_program_of_the_page_runs(opensearch: OpenSearchServer):
    run_page("elasticsearch.md", {"localhost:9200": opensearch.address})
    assert opensearch.documents("orders") == {"1": {"id": 1, "article": "tea"}, "2": {"id": 2, "article": "jam"}}
