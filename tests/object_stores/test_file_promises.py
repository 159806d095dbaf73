"""File source and file sink on a real S3-compatible server pass the conformance kit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flott.common.configuration import Configuration
from flott.common.serialization import Encoder
from flott.datastream.connectors.file_system import FileSink
from flott.errors import FlottError
from flott.runtime.storage import initialize_object_stores, opening
from flott.testing.connectors.source_conformance import as_keywords
from flott.testing.harness import in_process
from tests.object_stores.file_promises import FilesRead, FilesWritten
from tests.s3_server import BUCKET, SECRET_KEY, S3Server


@pytest.fixture(autouse=True)
def settings(server: S3Server) -> Iterator[None]:
    initialize_object_stores(Configuration.of(server.options))
    yield
    opening._settings = None


class TestFilesWritten(FilesWritten):
    bucket = f"s3://{BUCKET}"
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _options(self, server: S3Server) -> None:
        self.job_options = server.options


class TestFilesRead(FilesRead):
    bucket = f"s3://{BUCKET}"
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _options(self, server: S3Server) -> None:
        self.job_options = server.options


def test_a_bucket_that_does_not_exist_is_named(server: S3Server) -> None:
    sink: Any = FileSink.for_row_format("s3://no-such-bucket/out", Encoder.simple_string_encoder()).build()
    env = in_process(1, restart_strategy__type="none", **as_keywords(server.options))
    env.from_collection(["a"]).sink_to(sink)
    with pytest.raises(FlottError, match=r"no-such-bucket.*does not exist"):
        env.execute()
