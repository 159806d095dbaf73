"""Object stores in memory for the tests of this folder."""

from __future__ import annotations

import pytest

from flott.runtime.storage import object_client, object_head
from tests.unit.runtime.storage.memory_objects import MemoryObjects


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> MemoryObjects:
    """The one bucket that every location of an object store is in."""
    store = MemoryObjects()
    monkeypatch.setattr(object_client, "client_of", lambda location, settings: store)
    monkeypatch.setattr(object_head, "RETRY_DELAYS", ())  # what fails in a test is to fail
    return store
