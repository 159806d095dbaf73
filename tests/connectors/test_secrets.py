"""Passwords of connectors appear nowhere: not in REST, plans, logs, exceptions, or files of a cluster but the program.

Jobs with a login to Kafka and to PostgreSQL run in a JobManager: one finishes, one fails in a function of the program,
and two have a wrong password. Then everything that the JobManager can be asked is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flott.common import Configuration, Types, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.common.serialization import SimpleStringSchema
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.jdbc import JdbcTableSink
from flott.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from flott.rest.app import all_endpoints, create_app
from flott.runtime.jobmanager.job_manager import JobManager
from flott.runtime.jobmanager.programs import ProgramStore
from tests.connectors.kafka.conftest import broker  # noqa: F401
from tests.connectors.kafka.test_source_security import login, source_of
from tests.connectors.postgres.conftest import server  # noqa: F401
from tests.servers import kafka, postgres
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.unit.runtime.jobmanager.jobs import QUICK, await_status, running, submit

WRONG = "neither-alices-nor-elbe-water"
SECRETS = (kafka.PASSWORD, postgres.PASSWORD, WRONG)
ROW = Types.ROW_NAMED(["word"], [Types.STRING()])
#: What a cluster keeps to run a job again. It holds the program with its settings, as the program was submitted.
PROGRAM = "graph.pickle"


def job(
    broker: KafkaServer,  # noqa: F811
    server: PostgresServer,  # noqa: F811
    *,
    kafka_password: str = kafka.PASSWORD,
    postgres_password: str = postgres.PASSWORD,
    word: str = "tea",
) -> StreamExecutionEnvironment:
    """A program that reads Kafka and writes to Kafka and PostgreSQL, with a login to each."""
    topic, target, database = broker.create_topic(), broker.create_topic(), server.new_database()
    broker.produce(topic, ["tea", "jam", word])
    server.execute("CREATE TABLE words (word TEXT)", database=database)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.of(QUICK))
    source = source_of(topic, login(broker, "SCRAM-SHA-256", kafka_password))
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words").uid("words")
    rows = words.map(lambda word: (check(word),), output_type=ROW).uid("rows")
    url = f"{server.url(database)}?user={postgres.USER}&password={postgres_password}"
    rows.sink_to(JdbcTableSink.builder().set_url(url).set_table("words").build()).uid("table")
    serializer = KafkaRecordSerializationSchema.builder().set_topic(target)
    written = (
        KafkaSink.builder()
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(target)
    )
    for key, value in login(broker, "PLAIN", kafka_password).items():
        written.set_property(key, value)
    words.sink_to(written.build()).uid("topic")
    return env


def check(word: str) -> str:
    if word == "bad":
        raise ValueError(f"The word {word} is bad.")
    return word


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobManager]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with running(tmp_path / "cluster", **{"restart-strategy.type": "none", "env.log.level": "DEBUG"}) as found:
        yield found


def answers(client: TestClient, manager: JobManager) -> Iterator[tuple[str, str]]:
    """Yield every answer of the JobManager to a question, with the question."""
    for endpoint in all_endpoints():
        if endpoint.method == "GET":
            for path in paths(endpoint.path, manager, client):
                yield path, client.get(path).text


def paths(pattern: str, manager: JobManager, client: TestClient) -> Iterator[str]:
    if ":jobid" not in pattern and ":applicationid" not in pattern:
        yield from files(pattern, "/jobmanager/logs", client)
        return
    for view in manager.jobs():
        path = pattern.replace(":jobid", view.job_id).replace(":applicationid", view.job_id)
        for vertex in view.vertices:
            own = path.replace(":vertexid", vertex.id).replace(":subtaskindex", "0").replace(":attempt", "0")
            yield from files(own.replace(":checkpointid", "1"), f"/jobs/{view.job_id}/logs", client)


def files(pattern: str, folder: str, client: TestClient) -> Iterator[str]:
    if ":logname" not in pattern:
        yield pattern
        return
    for file in client.get(folder).json()["logs"]:
        yield pattern.replace(":logname", file["name"])


def shown(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_passwords_are_in_no_answer_no_log_no_plan_and_no_file_but_the_program(
    broker: KafkaServer,  # noqa: F811
    server: PostgresServer,  # noqa: F811
    manager: JobManager,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    ends: Mapping[str, tuple[dict[str, str], JobStatus]] = {
        "good": ({}, JobStatus.FINISHED),
        "bad record": ({"word": "bad"}, JobStatus.FAILED),
        "kafka refuses": ({"kafka_password": WRONG}, JobStatus.FAILED),
        "postgres refuses": ({"postgres_password": WRONG}, JobStatus.FAILED),
    }
    for name, (changes, status) in ends.items():
        env = job(broker, server, **changes)
        assert not shown(env.get_execution_plan()), "a plan"
        view = await_status(manager, submit(manager, env, name), status)
        if status is JobStatus.FAILED:
            assert view.failures, name
            assert not shown("".join(failure.text for failure in view.failures)), "an exception"
    app = create_app(manager, ProgramStore(tmp_path / "programs", manager.configuration))
    with TestClient(app, base_url="http://localhost:8081") as client:
        asked = dict(answers(client, manager))
    assert len(asked) > 100
    assert [path for path, text in asked.items() if shown(text)] == []
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    logs = [path for path in kept if path.suffix == ".log"]
    assert "Kafka" in "".join(path.read_text() for path in logs), "the logs of the jobs are among the files"
    holding = [path for path in kept if any(secret.encode() in path.read_bytes() for secret in SECRETS)]
    assert {path.name for path in holding} == {PROGRAM}
    for path in holding:
        assert not path.parent.stat().st_mode & 0o077, "others may read the program of a job"
    assert not shown(caplog.text)
    assert not shown("".join(capfd.readouterr()))
