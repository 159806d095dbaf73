"""What the tests of the cluster share: their modules are found by the processes of jobs, and dispatchers of puppets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.runtime.jobmanager.puppets import Puppet, Stage
from tests.unit.runtime.storage.conftest import objects as objects  # a fixture


@pytest.fixture(autouse=True)
def importable_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of the jobs are in modules of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))


@pytest.fixture
def puppets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatchers of this test start their own puppets."""
    monkeypatch.setattr(Puppet, "made", [])


@pytest.fixture
def stage(tmp_path: Path, puppets: None) -> Iterator[Stage]:
    """A dispatcher of puppets."""
    made = Stage(tmp_path)
    yield made
    made.dispatcher.close(at_once=True)
