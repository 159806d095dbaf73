"""Processes of jobs find the tests' own modules, as a program's are found where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def importable_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of the jobs are in modules of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
