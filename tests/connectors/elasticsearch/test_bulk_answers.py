"""What the Elasticsearch sink sends, and what it makes of answers. The server is one in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from flott.common import Types
from flott.common.types import Row, RowKind
from flott.datastream.connectors._stores import BulkLimits, RetryPolicy
from flott.datastream.connectors.base import DeliveryGuarantee, Guarantee, OnError, WriterContext
from flott.datastream.connectors.elasticsearch import (
    DocumentAction,
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
    FlushBackoffType,
)
from flott.datastream.connectors.opensearch import OpensearchSinkBuilder
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.elasticsearch.store import judged
from flott.runtime.connectors.stores.actions import version_of

FAST = RetryPolicy(max_attempts=4, initial_delay_ms=1, max_delay_ms=2)
ORDERS = ElasticsearchEmitter.static_index("orders", key_field="id")
Answer = tuple[int, dict[str, str], Any]


@contextmanager
def server(answer: Callable[[str, list[Any]], Answer]) -> Iterator[str]:
    """Serve answers of a function of the path and the lines of the request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, content = answer(self.path, [json.loads(line) for line in body.splitlines()])
            self._send(status, headers, content)

        def do_GET(self) -> None:
            self._send(*answer(self.path, [self.headers.get("authorization")]))

        def _send(self, status: int, headers: dict[str, str], content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None: ...

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def context(record_type: Any = None, now_ms: int = 5000, attempt: str = "a") -> WriterContext:
    return WriterContext(0, 1, 7, attempt, "job", "op", now_ms, record_type)


def write(sink: ElasticsearchSink, values: list[Any], where: WriterContext | None = None) -> None:
    writer = sink.create_writer(where or context())
    try:
        writer.write(values, None)
        writer.prepare_commit()
    finally:
        writer.close()


def sink_for(host: str, emitter: ElasticsearchEmitter = ORDERS, **settings: Any) -> ElasticsearchSink:
    return ElasticsearchSink((f"http://{host}",), emitter, retries=FAST, **settings)


def done(lines: list[Any]) -> Answer:
    return (
        200,
        {},
        {"items": [{kind: {"status": 200}} for line in lines for kind in line if kind in ("index", "delete")]},
    )


def test_rows_become_documents_with_ids_and_external_versions():
    seen: list[Any] = []
    rows = [
        Row(id=1, name="tea", at=datetime(2024, 2, 29, 12), price=Decimal("1.10")),
        Row.of_kind(RowKind.UPDATE_BEFORE, id=1, name="tea", at=None, price=None),
        Row.of_kind(RowKind.DELETE, id=2, name="jam", at=None, price=None),
        {"id": 3, "tags": {"b", "a"}, "nested": Row(x=1)},
    ]

    def answer(path: str, lines: list[Any]) -> Answer:
        seen.extend([path, *lines])
        return done(lines)

    with server(answer) as host:
        write(sink_for(host, path_prefix="/search"), rows)
    version = {"version": version_of(5000, 0), "version_type": "external_gte"}
    assert seen == [
        "/search/_bulk",
        {"index": {"_index": "orders", "_id": "1", **version}},
        {"id": 1, "name": "tea", "at": "2024-02-29T12:00:00", "price": "1.10"},
        {"delete": {"_index": "orders", "_id": "2", **version}},
        {"index": {"_index": "orders", "_id": "3", **version}},
        {"id": 3, "tags": ["a", "b"], "nested": {"x": 1}},
    ]


def test_an_index_may_come_from_a_field_a_type_from_the_builder_and_an_action_from_a_function():
    seen: list[Any] = []

    def answer(path: str, lines: list[Any]) -> Answer:
        seen.extend(lines)
        return done(lines)

    with server(answer) as host:
        emitter = ElasticsearchEmitter.dynamic_index("day", "id", "order")
        six = Elasticsearch6SinkBuilder().set_hosts(host).set_emitter(emitter).set_external_versions(False).build()
        declared = Types.ROW_NAMED(["day", "id"], [Types.STRING(), Types.INT()])
        write(six, [("monday", 1)], context(declared))
        own = ElasticsearchEmitter.from_function(
            lambda n: [DocumentAction("a", f"{n}", {}, "r"), DocumentAction("b", None, {})]
        )
        write(OpensearchSinkBuilder().set_hosts(host).set_emitter(own).set_external_versions(False).build(), [9])
    assert seen == [
        {"index": {"_index": "monday", "_id": "1", "_type": "order"}},
        {"day": "monday", "id": 1},
        {"index": {"_index": "a", "_id": "9", "routing": "r"}},
        {},
        {"index": {"_index": "b", "_id": "job-op-7-0-0"}},
        {},
    ]


def test_only_actions_that_the_server_had_no_room_for_are_sent_again():
    requests: list[list[str]] = []

    def answer(path: str, lines: list[Any]) -> Answer:
        ids = [line["index"]["_id"] for line in lines if "index" in line]
        requests.append(ids)
        if len(requests) == 1:
            return 429, {"retry-after": "0.001"}, {"error": {"reason": "busy"}}
        busy = {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue"}}
        newer = {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "current version [9]"}}
        first = {"1": {"status": 201}, "2": busy, "3": newer}
        return 200, {}, {"items": [{"index": first[one] if len(requests) == 2 else {"status": 200}} for one in ids]}

    with server(answer) as host:
        write(sink_for(host), [{"id": one} for one in "123"])
    assert requests == [["1", "2", "3"], ["1", "2", "3"], ["2"]]


def test_a_document_that_another_attempt_at_the_epoch_wrote_later_is_written_over():
    versions: list[int] = []
    further = version_of(5000, 3)

    def answer(path: str, lines: list[Any]) -> Answer:
        versions.append(lines[0]["index"]["version"])
        conflict = {"status": 409, "error": {"type": "x", "reason": f"current version [{further}] is higher"}}
        return 200, {}, {"items": [{"index": conflict if len(versions) == 1 else {"status": 200}}]}

    with server(answer) as host:
        write(sink_for(host), [{"id": 1}])
    assert versions == [version_of(5000, 0), further]


def test_a_request_that_is_too_large_is_cut_in_halves_until_a_single_document_is_rejected():
    accepted: list[str] = []

    def answer(path: str, lines: list[Any]) -> Answer:
        if len(lines) > 2 or len(lines[1]["text"]) > 50:
            return 413, {}, {}
        accepted.append(lines[0]["index"]["_id"])
        return done(lines)

    documents = [{"id": number, "text": "x" * (100 if number == 2 else 1)} for number in range(4)]
    with server(answer) as host:
        write(sink_for(host, on_rejected=OnError.skip()), documents)
        assert accepted == ["0", "1", "3"]
        with pytest.raises(ConnectorError, match=r"rejected document 2 of index orders: it is larger"):
            write(sink_for(host), documents)


def test_a_mapping_conflict_fails_with_the_id_and_the_reason_and_costs_no_second_attempt():
    requests = 0
    error = {
        "type": "mapper_parsing_exception",
        "reason": "failed to parse field [price]",
        "caused_by": {"type": "illegal_argument_exception", "reason": 'For input string: "abc"'},
    }

    def answer(path: str, lines: list[Any]) -> Answer:
        nonlocal requests
        requests += 1
        return 200, {}, {"items": [{"index": {"status": 400, "error": error}}]}

    with (
        server(answer) as host,
        pytest.raises(ConnectorError, match=r'document 17 of index orders: mapper_parsing.*\[price\].*"abc"'),
    ):
        write(sink_for(host), [{"id": 17, "price": "abc"}])
    assert requests == 1


def test_a_wrong_login_is_named_and_its_secret_is_not():
    def answer(path: str, lines: list[Any]) -> Answer:
        return 401, {}, {"error": "hidden-secret is wrong"}

    with server(answer) as host:
        sink = sink_for(host, username="ada", password="hidden-secret")
        with pytest.raises(ProgramError, match="does not accept the user, the password") as refused:
            sink.validate()
        with pytest.raises(ConnectorError, match="does not accept the user, the password") as later:
            write(sink, [{"id": 1}])
    assert "hidden-secret" not in f"{refused.value} {later.value} {sink!r}"


def test_logins_and_api_keys_are_sent():
    seen: list[Any] = []

    def answer(path: str, lines: list[Any]) -> Answer:
        seen.extend(lines)
        return 200, {}, {}

    with server(answer) as host:
        sink_for(host, username="ada", password="x").validate()
        sink_for(host, api_key="abc==").validate()
    assert seen == ["Basic YWRhOng=", "ApiKey abc=="]


def test_another_host_is_asked_when_one_does_not_answer():
    with server(lambda path, lines: done(lines)) as host:
        sink = ElasticsearchSink(("http://127.0.0.1:1", f"http://{host}"), ORDERS, retries=FAST)
        write(sink, [{"id": 1}])
    with pytest.raises(ConnectorError, match=r"did not accept 1 changes in 4 attempts.*does not answer"):
        write(ElasticsearchSink(("http://127.0.0.1:1",), ORDERS, retries=FAST), [{"id": 1}])


def test_a_server_that_is_stalled_is_an_error_after_the_time_out():
    release = threading.Event()

    def answer(path: str, lines: list[Any]) -> Answer:
        release.wait(60)
        return done(lines)

    with server(answer) as host:
        try:
            with pytest.raises(ConnectorError, match=r"does not answer \(ReadTimeout"):
                write(sink_for(host, socket_timeout_ms=50), [{"id": 1}])
        finally:
            release.set()


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"status": 200, "result": "updated"}, "DONE"),
        ({"status": 404, "result": "not_found"}, "DONE"),
        ({"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "?"}}, "SUPERSEDED"),
        ({"status": 503, "error": {"type": "unavailable_shards_exception", "reason": "?"}}, "RETRY"),
        ({"status": 403, "error": {"type": "cluster_block_exception", "reason": "disk full"}}, "RETRY"),
        ({"status": 400, "error": {"type": "strict_dynamic_mapping_exception", "reason": "?"}}, "REJECTED"),
        ({"status": 404, "error": {"type": "index_not_found_exception", "reason": "?"}}, "REJECTED"),
    ],
)
def test_the_answer_to_each_action_is_understood(answer: Any, verdict: str):
    assert judged(answer, version_of(5000, 0))[0].verdict.name == verdict


def test_the_builder_takes_pyflinks_settings():
    sink = (
        Elasticsearch7SinkBuilder()
        .set_hosts(["https://a:9200", "b:9200"])
        .set_emitter(ORDERS)
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_bulk_flush_max_actions(7)
        .set_bulk_flush_max_size_mb(-1)
        .set_bulk_flush_interval(1000)
        .set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 10)
        .set_connection_username("ada")
        .set_connection_password("x")
        .set_connection_path_prefix("prefix/")
        .set_connection_request_timeout(1)
        .set_connection_timeout(2)
        .set_socket_timeout(3)
        .build()
    )
    assert sink.hosts == ("https://a:9200", "http://b:9200")
    assert (sink.limits.max_actions, sink.limits.max_bytes > 2**39) == (7, True)
    assert sink.retries == RetryPolicy(4, 10, 1.0, 10, 0.0)
    assert (sink.path_prefix, sink.connection_timeout_ms, sink.socket_timeout_ms) == ("/prefix", 2, 3)
    assert sink.guarantee is Guarantee.IDEMPOTENT
    plain = ElasticsearchEmitter.static_index("logs")
    assert Elasticsearch7SinkBuilder().set_hosts("a").set_emitter(plain).build().guarantee is Guarantee.AT_LEAST_ONCE
    none = Elasticsearch7SinkBuilder().set_bulk_flush_backoff_strategy(FlushBackoffType.NONE, 3, 10)
    assert none.set_hosts("a").set_emitter(ORDERS).build().retries.max_attempts == 1


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Elasticsearch7SinkBuilder().set_emitter(ORDERS).build(), "needs set_hosts"),
        (lambda: Elasticsearch7SinkBuilder().set_hosts("a").build(), "needs set_emitter"),
        (lambda: Elasticsearch7SinkBuilder().set_hosts("http://u:secret@a"), "Found a login in the host"),
        (lambda: Elasticsearch7SinkBuilder().set_emitter("org.foo.Emitter"), "set_emitter"),
        (
            lambda: Elasticsearch7SinkBuilder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE),
            "Give the emitter a key field",
        ),
        (
            lambda: Elasticsearch7SinkBuilder().set_hosts("a").set_emitter(ORDERS).set_connection_username("u").build(),
            "A login needs",
        ),
        (lambda: DocumentAction("a", None, None), "takes its id"),
        (lambda: BulkLimits(max_actions=0), "at least 1"),
    ],
)
def test_wrong_settings_are_refused(build: Callable[[], Any], words: str):
    with pytest.raises(ProgramError, match=words) as refused:
        build()
    assert "secret" not in str(refused.value)
