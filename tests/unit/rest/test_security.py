"""Who is let in: tokens, foreign pages, foreign names, and addresses that others can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.rest.app import all_endpoints
from flott.rest.security import check_exposure, is_loopback
from flott.runtime.jobmanager.access_token import access_token_of
from tests.unit.rest.fake_cluster import RUNNING, FakeCluster

Serve = Callable[..., TestClient]
#: The files of the web UI, which hold no data, and the log-in.
OPEN_PATHS = ("/", "/index.html", "/flott/session")


def test_with_a_token_every_endpoint_asks_for_it(serve: Serve) -> None:
    client = serve(**{"flott.rest.token": "s3cret"})
    for endpoint in all_endpoints():
        if endpoint.path in OPEN_PATHS:
            continue
        path = endpoint.path.replace(":jobid", RUNNING)
        reply = client.request(endpoint.method, path)
        assert reply.status_code == 401, endpoint.path
        assert reply.headers["www-authenticate"] == "Bearer"
        assert list(reply.json()) == ["errors"]
    assert client.get("/no-such-thing").status_code == 401  # not even what there is
    assert {endpoint.path for endpoint in all_endpoints() if not endpoint.needs_token} == {"/flott/session"}


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer s3cre", "Bearer s3crett", "Basic s3cret", "s3cret", "Bearer", "Bearer \u00e4", ""],
)
def test_a_wrong_token_is_refused(serve: Serve, header: str) -> None:
    client = serve(**{"flott.rest.token": "s3cret"})
    assert client.get("/jobs", headers={"Authorization": header.encode()}).status_code == 401


def test_the_right_token_opens(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    for settings in ({"flott.rest.token": "s3cret"}, {"flott.rest.token-file": str(file)}):
        client = serve(**settings)
        assert client.get("/jobs", headers={"Authorization": "Bearer s3cret"}).status_code == 200
        assert client.get("/jobs", headers={"Authorization": "bearer  s3cret"}).status_code == 200


def test_a_token_that_cannot_be_read_or_sent_or_is_empty_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for settings in (
        {"flott.rest.token-file": str(tmp_path / "missing")},
        {"flott.rest.token-file": str(tmp_path / "empty")},
        {"flott.rest.token": " "},
        {"flott.rest.token": "two words"},
        {"flott.rest.token": "zwölf"},
        {"flott.rest.token": "two\nlines"},
    ):
        with pytest.raises(ConfigurationError, match=r"flott\.rest\.token"):
            access_token_of(Configuration.of(settings))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8081"},
    ],
)
def test_a_foreign_page_cannot_order_anything(
    client: TestClient, cluster: FakeCluster, headers: dict[str, str]
) -> None:
    for method, path in (
        ("PATCH", f"/jobs/{RUNNING}"),
        ("GET", f"/jobs/{RUNNING}/yarn-cancel"),
        ("POST", f"/jobs/{RUNNING}/stop"),
        ("POST", "/jobs"),
        ("POST", "/jars/upload"),
        ("DELETE", "/cluster"),
    ):
        assert client.request(method, path, headers=headers).status_code == 403
    assert cluster.orders == []
    assert client.get("/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost:8081"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"},
        {"Sec-Fetch-Site": "none"},
        {},
    ],
)
def test_ones_own_page_and_clients_that_are_no_browsers_can(client: TestClient, headers: dict[str, str]) -> None:
    assert client.patch(f"/jobs/{RUNNING}", headers=headers).status_code == 202


def test_a_foreign_page_that_knows_the_token_can(serve: Serve) -> None:
    client = serve(**{"flott.rest.token": "s3cret"})
    headers = {"Origin": "https://dash.example", "Authorization": "Bearer s3cret"}
    assert client.patch(f"/jobs/{RUNNING}", headers=headers).status_code == 202
    asked = client.options(
        "/jobs", headers={"Origin": "https://dash.example", "Access-Control-Request-Method": "PATCH"}
    )
    assert asked.status_code == 204
    assert "Authorization" in asked.headers["access-control-allow-headers"]


def test_the_allowed_origin_is_configured(serve: Serve) -> None:
    client = serve(**{"web.access-control-allow-origin": "https://dash.example"})
    assert client.get("/jobs").headers["access-control-allow-origin"] == "https://dash.example"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8081", "127.0.0.1.evil.example", "0.0.0.0", "169.254.1.1"]
)
def test_a_foreign_name_for_loopback_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/jobs", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8081", "127.0.0.1:9", "127.8.8.8", "[::1]:8081", "[::1]"])
def test_names_of_loopback_are_welcome(client: TestClient, host: str) -> None:
    assert client.get("/jobs", headers={"Host": host}).status_code == 200


def test_beyond_loopback_or_with_a_token_any_name_is_welcome(serve: Serve) -> None:
    assert serve(**{"rest.bind-address": "0.0.0.0"}).get("/jobs", headers={"Host": "jm.example"}).status_code == 200
    assert serve(**{"rest.address": "jm.example"}).get("/jobs", headers={"Host": "jm.example:80"}).status_code == 200
    shown = {"Host": "jm.example", "Authorization": "Bearer t"}
    assert serve(**{"flott.rest.token": "t"}).get("/jobs", headers=shown).status_code == 200


def test_listening_beyond_loopback_needs_a_token_or_certificates_or_a_plain_word() -> None:
    open_to_all = {"rest.bind-address": "0.0.0.0"}
    with pytest.raises(ConfigurationError, match=r"flott\.rest\.token-file"):
        check_exposure(Configuration.of(open_to_all))
    with pytest.raises(ConfigurationError):  # encrypted, and still open to everybody
        check_exposure(Configuration.of({**open_to_all, "security.ssl.rest.enabled": True}))
    mutual = {"security.ssl.rest.enabled": True, "security.ssl.rest.authentication-enabled": True}
    for more in ({"flott.rest.token": "t"}, mutual, {"flott.rest.allow-unauthenticated": True}):
        check_exposure(Configuration.of({**open_to_all, **more}))
    check_exposure(Configuration.of({"rest.bind-address": "127.0.0.1"}))


@pytest.mark.parametrize(
    ("host", "answer"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_known(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer
