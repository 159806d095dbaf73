"""The webhook sink: what it sends, and what it makes of answers. The server is one in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import OnError, Sink, WriterContext
from flott.datastream.connectors.http import HttpSink
from flott.errors import ConnectorError, ProgramError
from flott.testing.connectors import SinkConformance
from flott.testing.sinks import Ledger, LedgerSink, commit_permit
from tests.connectors.http.serving import serving
from tests.connectors.pages import run_page

FAST = RetryPolicy(max_attempts=4, initial_delay_ms=1, max_delay_ms=5)
Seen = list[tuple[str, str, dict[str, str], bytes]]


@contextmanager
def webhook(answer: Callable[[int, bytes], int] = lambda number, body: 204) -> Iterator[tuple[str, Seen]]:
    """Serve a hook that answers a function of the number and body of a request with a status."""
    seen: Seen = []
    lock = threading.Lock()

    class Hook(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen.append((self.command, self.path, headers, body))
                status = answer(len(seen), body)
            self.send_response(status)
            if status in (429, 503):
                self.send_header("retry-after", "0.001")
            self.send_header("content-length", "0")
            self.end_headers()

        do_PUT = do_POST

    with serving(Hook) as address:
        yield f"http://{address}/hook", seen


def write(sink: Sink[Any], values: list[Any], attempt: str = "a") -> list[Any]:
    writer = sink.create_writer(WriterContext(1, 2, 7, attempt, "job", "op", now_ms=0))
    try:
        writer.write(values, None)
        return writer.prepare_commit()
    finally:
        writer.close()


def test_each_record_is_a_request_in_json_with_a_key_that_a_repeated_epoch_repeats():
    with webhook() as (url, seen):
        sink = HttpSink.builder().set_url(url).set_headers({"Authorization": "Bearer x"}).build()
        for attempt in "ab":
            write(sink, [{"n": 1}, {"n": 2}], attempt)
    assert [json.loads(body) for *_, body in seen] == [{"n": 1}, {"n": 2}] * 2
    keys = [headers["idempotency-key"] for _, _, headers, _ in seen]
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2
    assert keys[0].startswith("job-op-7-1-0-")
    assert {headers["authorization"] for _, _, headers, _ in seen} == {"Bearer x"}
    assert {headers["content-type"] for _, _, headers, _ in seen} == {"application/json"}


def test_records_in_another_order_have_other_keys_so_that_a_server_drops_none_of_them():
    with webhook() as (url, seen):
        sink = HttpSink(url)
        write(sink, ["a", "b"])
        write(sink, ["b", "a"])
    assert len({headers["idempotency-key"] for _, _, headers, _ in seen}) == 4


def test_batches_are_json_arrays_or_lines():
    with webhook() as (url, seen):
        write(HttpSink.builder().set_url(url).set_batch_size(2).set_method("put").build(), [1, 2, 3])
        lines = HttpSink.builder().set_url(url).set_batch_size(2).set_serializer(SimpleStringSchema()).build()
        write(lines, ["x", "y", "z"])
    assert [body for *_, body in seen] == [b"[1,2]", b"[3]", b"x\ny\n", b"z\n"]
    assert [method for method, *_ in seen] == ["PUT", "PUT", "POST", "POST"]


def test_a_url_may_depend_on_the_record():
    with webhook() as (url, seen):
        write(HttpSink.builder().set_url(lambda name: f"{url}/{name}").build(), ["a", "b"])
    assert [path for _, path, _, _ in seen] == ["/hook/a", "/hook/b"]


def test_a_busy_server_is_asked_again_with_the_same_key_and_a_refusal_is_not_repeated():
    with (
        webhook(lambda number, body: (503, 429, 204, 422)[number - 1]) as (url, seen),
        pytest.raises(ConnectorError, match=r"rejected the request job-op-7-1-1-.* to http://.*: HTTP 422"),
    ):
        write(HttpSink(url, retries=FAST), ["a", "b"])
    keys = [headers["idempotency-key"] for _, _, headers, _ in seen]
    assert len(seen) == 4
    assert keys[0] == keys[1] == keys[2]


def test_refused_requests_become_dead_letters():
    ledger = Ledger("refused requests")
    with webhook(lambda number, body: 400 if body == b'"b"' else 200) as (url, _):
        sink = HttpSink(url, on_rejected=OnError.dead_letter(LedgerSink(ledger)))
        committables = write(sink, ["a", "b", "c"])
    committer = sink.create_committer()
    assert committer is not None
    committer.commit(commit_permit(7, 0), committables)
    assert [letter.value for letter in ledger.records] == [b'"b"']


def test_requests_at_the_same_time_are_all_sent_and_only_failed_ones_again():
    with webhook(lambda number, body: 500 if number <= 3 else 200) as (url, seen):
        write(HttpSink(url, concurrent_requests=4, retries=FAST), list(range(10)))
    assert {json.loads(body) for *_, body in seen} == set(range(10))
    assert len(seen) == 13


def test_a_server_that_is_away_or_stalled_is_an_error_without_the_password():
    sink = HttpSink("http://user:hidden@127.0.0.1:1/hook", retries=FAST)
    with pytest.raises(ConnectorError, match="did not accept 1 changes in 4 attempts") as away:
        write(sink, ["a"])
    release = threading.Event()
    with webhook(lambda number, body: 200 if release.wait(60) else 500) as (url, _):
        try:
            with pytest.raises(ConnectorError, match="ReadTimeout"):
                write(HttpSink(url, timeout_ms=50, retries=FAST), ["a"])
        finally:
            release.set()
    assert (
        "hidden"
        not in f"{away.value} {sink!r} {HttpSink.builder().set_url('http://a').set_headers({'k': 'hidden'}).build()!r}"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: HttpSink.builder().build(),
        lambda: HttpSink.builder().set_url("ftp://a"),
        lambda: HttpSink.builder().set_method("GET"),
        lambda: HttpSink.builder().set_batch_size(0),
        lambda: HttpSink.builder().set_headers({"a": "ä"}),
        lambda: HttpSink.builder().set_url(str).set_batch_size(2).build(),
    ],
)
def test_wrong_settings_are_refused(wrong: Callable[[], Any]):
    with pytest.raises(ProgramError):
        wrong()


class TestWebhookConformance(SinkConformance):
    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with webhook() as (self.url, self.seen):
            yield

    def sink(self) -> Sink[Any]:
        self.seen.clear()
        return HttpSink(self.url, batch_size=5)

    def visible(self) -> Sequence[Any]:
        return [value for *_, body in self.seen for value in json.loads(body)]


def test_the_programs_of_the_page_run(capfd: pytest.CaptureFixture[str]):
    class Both(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            if "last-event-id" in self.headers:
                self.send_response(204)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"id: 1\ndata: 10\n\nid: 2\ndata: 20\n\n")

    bodies: list[bytes] = []
    with serving(Both) as address:
        run_page("http.md", {"https://example.org": f"http://{address}"})
    assert bodies == [b'[{"id":1},{"id":2}]']
    assert sorted(line.rpartition("> ")[2] for line in capfd.readouterr().out.splitlines()) == ["10", "20"]
