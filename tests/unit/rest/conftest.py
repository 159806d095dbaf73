"""The REST application over a cluster made of data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flott.common.configuration import Configuration
from flott.rest.app import create_app
from flott.runtime.jobmanager.programs import ProgramStore
from tests.unit.rest.fake_cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., TestClient]:
    """A client of a cluster with these settings."""

    def serve(cluster: FakeCluster | None = None, **settings: object) -> TestClient:
        configuration = Configuration.of({key.replace("_", "."): value for key, value in settings.items()})
        cluster = cluster or FakeCluster(tmp_path, configuration)
        app = create_app(cluster, ProgramStore(tmp_path / "programs", cluster.configuration))
        return TestClient(app, base_url="http://localhost:8081", raise_server_exceptions=False)

    return serve


@pytest.fixture
def client(cluster: FakeCluster, serve: Callable[..., TestClient]) -> Iterator[TestClient]:
    with serve(cluster) as client:
        yield client
