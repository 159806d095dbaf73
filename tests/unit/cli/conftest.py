"""A command line to try, a home of its own, and a JobManager made of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flott.cli.root import flott
from tests.unit.cli.fake_jobmanager import FakeJobManager, fake_jobmanager


@dataclass(frozen=True)
class Ran:
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON on stdout, which must be all there is."""
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without clusters, as the working directory."""
    monkeypatch.delenv("FLOTT_CONF_DIR", raising=False)
    monkeypatch.setenv("FLOTT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def cli(home: Path) -> Callable[..., Ran]:
    """Runs a command line in this process."""

    def run(*arguments: str) -> Ran:
        result = CliRunner().invoke(flott, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def jobmanager() -> Iterator[FakeJobManager]:
    with fake_jobmanager() as manager:
        yield manager
