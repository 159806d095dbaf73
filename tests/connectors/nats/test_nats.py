"""NATS JetStream, against a real server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import DeliveryGuarantee, OnError, Sink, SliceRequest, Source
from flott.datastream.connectors.nats import NatsConnectionOptions, NatsSink, NatsSource, StartPosition
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.nats.connection import NatsConnection
from flott.testing import collect, in_process
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.sink_run import SinkRun
from tests.connectors.pages import run_page
from tests.servers.nats import nats_server, serve
from tests.servers.process import NoServer
from tests.servers.sharing import shared

pytestmark = pytest.mark.connectors

TEXT = SimpleStringSchema()


@pytest.fixture(scope="session")
def options() -> Iterator[NatsConnectionOptions]:
    pytest.importorskip("nats", reason="no client: pip install 'flott[nats]'")
    try:
        with shared("nats", serve) as facts:
            yield NatsConnectionOptions(facts["url"])
    except NoServer as reason:
        pytest.skip(str(reason))


def create(options: NatsConnectionOptions, values: Sequence[bytes] = (), subjects: int = 1) -> str:
    """Create a stream and publish to its subjects in turn. Its name is also the first part of its subjects."""
    name = uuid4().hex
    connection = NatsConnection(options)

    async def publish() -> None:
        await connection.stream.add_stream(name=name, subjects=[f"{name}.>"])
        for number, value in enumerate(values):
            await connection.stream.publish(f"{name}.{number % subjects}", value)

    connection.call(publish(), "filling a stream")
    connection.close()
    return name


def content(options: NatsConnectionOptions, stream: str) -> list[str]:
    return collect(
        in_process(1).from_source(
            NatsSource(options, stream, TEXT, bounded=True), WatermarkStrategy.no_watermarks(), "stream"
        )
    )


class _Source(SourceConformance):
    seeds = 3
    bounded = True
    subjects = 1

    @pytest.fixture(autouse=True)
    def _server(self, options: NatsConnectionOptions) -> None:
        self.options = options

    def _source(self, values: Sequence[bytes], on_error: OnError) -> Source[Any]:
        stream = create(self.options, values, self.subjects)
        subjects = tuple(f"{stream}.{number}" for number in range(self.subjects))
        return NatsSource(self.options, stream, TEXT, subjects, bounded=self.bounded, on_error=on_error)

    def source(self, count: int) -> Source[Any]:
        return self._source([str(number).encode() for number in range(count)], OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        return self._source([b"\xff" if n in bad else str(n).encode() for n in range(count)], on_error)


class TestBoundedSource(_Source):
    pass


class TestUnboundedSourceOfThreeSubjects(_Source):
    bounded, subjects = False, 3


class _Sink(SinkConformance):
    guarantee = DeliveryGuarantee.EXACTLY_ONCE

    @pytest.fixture(autouse=True)
    def _server(self, options: NatsConnectionOptions) -> None:
        self.options = options

    def sink(self) -> Sink[Any]:
        self.stream = create(self.options)
        return NatsSink(self.options, f"{self.stream}.out", TEXT, self.guarantee)

    def visible(self) -> Sequence[Any]:
        return content(self.options, self.stream)


class TestExactSink(_Sink):
    pass


class TestDirectSink(_Sink):
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE


def test_a_source_starts_where_it_is_told(options: NatsConnectionOptions) -> None:
    stream = create(options, [b"1", b"2", b"3"])
    source = NatsSource(options, stream, TEXT)

    def planned(start: StartPosition) -> list[tuple[int, int]]:
        enumerator = replace(source, start=start).create_enumerator()
        enumerator.open()
        return [(part.start, part.stop) for part in enumerator.plan(SliceRequest(10, 1, 0)).slices]

    assert planned(StartPosition.earliest()) == [(1, 4)]
    assert planned(StartPosition.sequence(3)) == [(3, 4)]
    assert planned(StartPosition.latest()) == []
    assert planned(StartPosition.timestamp(0)) == [(1, 4)]
    assert planned(StartPosition.timestamp(4_000_000_000_000)) == []


def test_a_stream_or_subject_that_is_missing_is_named(options: NatsConnectionOptions) -> None:
    with pytest.raises(ProgramError, match="looking for stream nowhere: not found"):
        NatsSource(options, "nowhere", TEXT).create_enumerator().open()
    with pytest.raises(ProgramError, match="No stream of NATS stores subject nowhere"):
        NatsSink(options, "nowhere", TEXT).validate()
    with pytest.raises(ConnectorError, match="nowhere"):
        SinkRun(NatsSink(options, "nowhere", TEXT, DeliveryGuarantee.AT_LEAST_ONCE)).stage(1, ["a"])


def test_a_wrong_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", ["--user", "jobs", "--pass", "right-password"]) as server:
        right = NatsConnectionOptions(server.url, user="jobs", password="right-password")
        create(right)
        with pytest.raises(ProgramError, match="Check user, password") as refused:
            NatsSource(replace(right, password="wrong-password"), "any", TEXT).create_enumerator().open()
        assert "wrong-password" not in str(refused.value) + repr(replace(right, password="wrong-password"))


def test_a_server_that_is_away_or_hangs_is_noticed(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats") as server:
        options = NatsConnectionOptions(server.url, timeout_seconds=1.0)
        stream = create(options, [b"1", b"2"])
        enumerator = NatsSource(options, stream, TEXT).create_enumerator()
        enumerator.open()
        server.process.pause()
        with pytest.raises(ConnectorError, match="no answer within"):
            enumerator.plan(SliceRequest(10, 1, 0))
        server.process.resume()
        assert enumerator.plan(SliceRequest(10, 1, 0)).slices[0].stop == 3
        server.process.kill()
        with pytest.raises(ConnectorError, match="NATS at"):
            enumerator.plan(SliceRequest(10, 1, 0))
        server.process.start()
        plan = enumerator.plan(SliceRequest(10, 1, 0))
        assert list(NatsSource(options, stream, TEXT).create_reader().read(plan.slices[0])) == ["1", "2"]


def test_the_program_of_the_page_runs(options: NatsConnectionOptions) -> None:
    connection = NatsConnection(options)

    async def prepare() -> None:
        await connection.stream.add_stream(name="ORDERS", subjects=["orders.>"])
        await connection.stream.add_stream(name="ANSWERS", subjects=["answers.>"])
        for subject, value in (("orders.eu.1", b"tea"), ("orders.us.1", b"jam"), ("orders.asia.1", b"rice")):
            await connection.stream.publish(subject, value)

    connection.call(prepare(), "filling a stream")
    connection.close()
    address = 'NatsConnectionOptions("nats://localhost:4222", user="jobs", password="secret")'
    run_page(
        "nats.md",
        {address: f'NatsConnectionOptions("{options.servers}")'},
        until=lambda: len(content(options, "ANSWERS")) >= 2,
    )
    assert sorted(content(options, "ANSWERS")) == ["JAM", "TEA"]
