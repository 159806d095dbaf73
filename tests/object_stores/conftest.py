"""A real S3-compatible server for the tests of this folder, started once and stopped at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from flott.common._object_store_settings import ObjectStoreSettings
from flott.common._options import object_store_settings
from flott.common.configuration import Configuration
from flott.runtime.storage import opening
from flott.runtime.storage.object_store import ObjectStorage
from tests.s3_server import BUCKET, S3Server, s3_server
from tests.servers.process import NoServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    pytest.importorskip("obstore", reason="no client: pip install 'flott[object-stores]'")
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture
def place() -> str:
    """A folder of the bucket that no other test uses."""
    return f"s3://{BUCKET}/{uuid4().hex[:12]}"


def settings_of(server: S3Server, **more: str) -> ObjectStoreSettings:
    configuration = Configuration()
    for key, value in {**server.options, **more}.items():
        configuration.set_string(key.replace("__", "."), value)
    return object_store_settings(configuration)


@pytest.fixture
def storage_at(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ObjectStorage]:
    """Storages on the server. Whatever this process opens finds it there, too."""
    monkeypatch.setattr(opening, "_settings", settings_of(server))
    return opening.open_object_storage
