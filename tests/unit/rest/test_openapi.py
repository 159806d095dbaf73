"""The document describes what is served, and the server keeps to the document when it is fuzzed."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import TypeAdapter
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from flott.common.configuration import Configuration
from flott.rest import openapi
from flott.rest.app import all_endpoints, create_app
from flott.rest.openapi import document
from flott.runtime.jobmanager.programs import ProgramStore
from tests.unit.rest.fake_cluster import FAILED, RUNNING, SOURCE, TASK_MANAGER, FakeCluster

DOCUMENT = document(all_endpoints())


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))
    return set().union(*map(references, node)) if isinstance(node, list) else set()


def test_every_endpoint_is_in_the_document_once_and_under_a_name_of_its_own(client: TestClient) -> None:
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(operations) == len(all_endpoints())
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert client.get("/openapi.json").json() == DOCUMENT


def test_every_reference_leads_somewhere() -> None:
    defined = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) <= defined


def test_every_endpoint_has_a_summary_and_every_query_parameter_a_meaning() -> None:
    for endpoint in all_endpoints():
        assert endpoint.summary, endpoint.path
        assert endpoint.tag, endpoint.path
        assert all(query.meaning for query in endpoint.query), endpoint.path
        assert endpoint.reply is str or TypeAdapter(endpoint.reply)


def test_the_document_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    openapi.main()
    assert json.loads(capsys.readouterr().out) == DOCUMENT


# -------------------------------------------------------------------------------------------------------------- fuzzing

#: Requests to each endpoint. They are the same every time; with more of them, others come as well.
EXAMPLES = int(os.environ.get("FLOTT_TEST_REQUESTS", "5"))
#: Values that lead somewhere, among those that do not.
KNOWN = {
    "jobid": [RUNNING, FAILED],
    "applicationid": [RUNNING],
    "vertexid": [SOURCE],
    "taskmanagerid": [TASK_MANAGER],
    "checkpointid": [7],
    "subtaskindex": [0],
    "logname": ["jobmanager.log"],
}


def not_a_failure_of_the_server(ctx: Any, response: Any, case: Any) -> None:
    """Whatever is sent is answered, or refused in the form of an error, never with a trace."""
    assert response.status_code < 500, response.text
    if response.status_code >= 300:
        assert list(response.json()) == ["errors"]
        assert all(isinstance(message, str) and message for message in response.json()["errors"])
    assert b"Traceback (most recent call last)" not in response.content  # a shape has a field of that name


CHECKS = [
    not_a_failure_of_the_server,
    response_schema_conformance,
    content_type_conformance,
    status_code_conformance,
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("fuzzed")
    cluster = FakeCluster(folder)
    (cluster.log_folder / "jobmanager.log").write_text("started\n")
    loaded = schemathesis.openapi.from_dict(with_known_values(DOCUMENT))
    loaded.app = create_app(cluster, ProgramStore(folder / "programs", Configuration()))
    return loaded


def with_known_values(original: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(original)
    for path in changed["paths"].values():
        for operation in path.values():
            for parameter in operation["parameters"]:
                if known := KNOWN.get(parameter["name"]):
                    parameter["schema"] = {"anyOf": [{"enum": known}, parameter["schema"]]}
    return changed


@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods]
)
def test_no_request_makes_the_server_fail(schema: Any, method: str, path: str) -> None:
    operation = schema[path][method]

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(GenerationMode.POSITIVE) | operation.as_strategy(GenerationMode.NEGATIVE))
    def fuzz(case: Any) -> None:
        response = case.call(base_url="http://localhost:8081", headers={"Host": "localhost"})
        case.validate_response(response, checks=CHECKS)

    fuzz()
