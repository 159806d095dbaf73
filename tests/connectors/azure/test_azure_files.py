"""File source and file sink on Azure Blob Storage, as Azurite imitates it: the same promises as on S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flott.errors import StorageError
from flott.runtime.storage import opening
from flott.runtime.storage.opening import open_object_storage
from tests.object_stores.file_promises import FilesRead, FilesWritten
from tests.servers.azurite import CONTAINER, KEY, AzuriteServer, azurite_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteServer]:
    pytest.importorskip("obstore", reason="no client: pip install 'flott[object-stores]'")
    try:
        with azurite_server(tmp_path_factory.mktemp("azurite")) as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def settings(server: AzuriteServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(opening, "_settings", None)


class TestFilesWritten(FilesWritten):
    bucket = f"az://{CONTAINER}"
    secrets = (KEY,)


class TestFilesRead(FilesRead):
    bucket = f"az://{CONTAINER}"
    secrets = (KEY,)


def test_a_large_file_is_committed_from_its_blocks() -> None:
    storage = open_object_storage(f"az://{CONTAINER}/large")
    chunk = bytes(range(256)) * 4096
    with storage.create("file") as target:
        for _ in range(20):
            target.write(chunk)
        assert not storage.exists("file")
    assert storage.read("file") == chunk * 20


def test_a_container_that_does_not_exist_is_named() -> None:
    with pytest.raises(StorageError, match=r"az://no-such-container.*does not exist"):
        open_object_storage("az://no-such-container/x").write("a", b"1")
