"""Ctrl-C where nobody can be asked; where somebody can, see the tests of ``flott run``."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from flott.cli.programs.interruption import Detached, Interruption
from flott.cli.terminal import Terminal


def interrupt(running: str | None, can_detach: bool) -> tuple[BaseException, Interruption]:
    watch: Any = SimpleNamespace(running=running, pause=lambda: None, resume=lambda: None)
    client: Any = None
    before = signal.getsignal(signal.SIGINT)
    interruption = Interruption(Terminal(), client, watch, can_detach=can_detach)
    with pytest.raises(KeyboardInterrupt) as caught, interruption:
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    return caught.value, interruption


def test_a_job_of_a_session_is_left_to_itself() -> None:
    error, interruption = interrupt("abc", can_detach=True)
    assert isinstance(error, Detached)
    assert interruption.detached is error
    assert (error.job_id, error.interrupted) == ("abc", True)


def test_a_job_that_would_not_go_on_alone_is_ended_with_the_program() -> None:
    error, interruption = interrupt("abc", can_detach=False)
    assert type(error) is KeyboardInterrupt
    assert interruption.detached is None


def test_a_program_without_a_job_is_simply_interrupted() -> None:
    error, _ = interrupt(None, can_detach=True)
    assert type(error) is KeyboardInterrupt
