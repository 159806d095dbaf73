"""File source and file sink on MinIO: the promises of the kit, a restart of the server, and wrong credentials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flott.common.configuration import Configuration
from flott.errors import StorageError
from flott.runtime.storage import initialize_object_stores, opening
from flott.runtime.storage.opening import open_object_storage
from tests.object_stores.file_promises import FilesRead, FilesWritten
from tests.servers.minio import BUCKET, SECRET_KEY, MinioServer, minio_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    pytest.importorskip("obstore", reason="no client: pip install 'flott[object-stores]'")
    try:
        with minio_server(tmp_path_factory.mktemp("minio")) as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def settings(server: MinioServer) -> Iterator[None]:
    initialize_object_stores(Configuration.of(server.options))
    yield
    opening._settings = None


class TestFilesWritten(FilesWritten):
    bucket = f"s3://{BUCKET}"
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _options(self, server: MinioServer) -> None:
        self.job_options = server.options


class TestFilesRead(FilesRead):
    bucket = f"s3://{BUCKET}"
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _options(self, server: MinioServer) -> None:
        self.job_options = server.options


def test_a_server_that_restarts_is_waited_for(server: MinioServer) -> None:
    storage = open_object_storage(f"s3://{BUCKET}/restarted")
    storage.write("a", b"1")
    server.process.kill()
    server.process.launch()
    assert storage.read("a") == b"1"
    storage.write("b", b"2")
    assert storage.read("b") == b"2"


def test_wrong_credentials_are_an_error_that_says_so(server: MinioServer) -> None:
    wrong = {"s3.secret-key": "not-the-secret", "flott.object-store.retry-timeout": "1 s"}
    initialize_object_stores(Configuration.of({**server.options, **wrong}))
    with pytest.raises(StorageError, match="credentials") as caught:
        open_object_storage(f"s3://{BUCKET}/refused").write("a", b"1")
    assert "not-the-secret" not in str(caught.value)
