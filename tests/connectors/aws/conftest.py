"""A server that imitates Amazon's services, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.moto import properties, serve
from tests.servers.process import NoServer
from tests.servers.sharing import shared


@pytest.fixture(scope="session")
def amazon() -> Iterator[dict[str, str]]:
    """The properties of a client."""
    pytest.importorskip("boto3", reason="no client: pip install 'flott[kinesis]'")
    try:
        with shared("moto", serve) as facts:
            yield properties(facts["port"])
    except NoServer as reason:
        pytest.skip(str(reason))
