from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.opensearch import OpenSearchServer, opensearch_server
from tests.servers.process import NoServer


@pytest.fixture(scope="session")
def opensearch() -> Iterator[OpenSearchServer]:
    """One server for all tests of this folder: it takes a while to start."""
    try:
        with opensearch_server() as server:
            yield server
    except NoServer as error:
        pytest.skip(str(error))
