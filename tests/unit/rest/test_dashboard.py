"""Flink's dashboard is served from where its files are, and nothing else is."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.rest.dashboard import Dashboard
from tests.unit.rest.fake_cluster import FakeCluster

FILES = {"index.html": "<title>dashboard</title>", "main.1a2b.js": "go()", "assets/logo.svg": "<svg/>"}


@pytest.fixture(params=["folder", "jar"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("not for you")
    if request.param == "folder":
        for name, text in FILES.items():
            file = tmp_path / "web" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "web"
    with zipfile.ZipFile(tmp_path / "flink-dist.jar", "w") as jar:
        for name, text in FILES.items():
            jar.writestr(f"web/{name}", text)
        jar.writestr("secret.txt", "not for you")
    return tmp_path / "flink-dist.jar"


@pytest.fixture
def client(place: Path, tmp_path: Path, serve: Callable[..., TestClient]) -> TestClient:
    return serve(FakeCluster(tmp_path / "cluster", Configuration.of({"flott.web.dashboard": str(place)})))


def test_the_dashboard_is_the_first_page_and_its_files_are_found(client: TestClient) -> None:
    for path in ("/", "/index.html"):
        page = client.get(path)
        assert (page.status_code, page.text) == (200, FILES["index.html"])
        assert page.headers["content-type"].startswith("text/html")
    assert client.get("/main.1a2b.js").headers["content-type"].startswith(("text/javascript", "application/javascript"))
    assert client.get("/assets/logo.svg").text == "<svg/>"
    assert client.get("/overview").json()["taskmanagers"] == 1, "the API is where it was"


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/secret.txt", "/web/main.1a2b.js", "/assets", "/assets/../../secret.txt"],
)
def test_only_files_of_the_dashboard_are_served(client: TestClient, path: str) -> None:
    reply = client.get(path)
    assert reply.status_code == 404
    assert "not for you" not in reply.text


def test_a_place_without_a_dashboard_is_refused_when_the_server_starts(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "nosuch"):
        with pytest.raises(ConfigurationError, match=r"there is no index\.html"):
            Dashboard.of(Configuration.of({"flott.web.dashboard": str(wrong)}))
    assert Dashboard.of(Configuration()).page("") is None
