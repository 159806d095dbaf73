"""What other threads want of a job, and how they end its waits."""

from __future__ import annotations

import threading

from flott.common._ids import EpochId
from flott.errors import EpochFailure
from flott.runtime.clock import SystemClock
from flott.runtime.jobmaster.inbox import Inbox
from flott.runtime.jobmaster.lifecycle import CancelRequested, SuspendRequested
from flott.testing.clock import ManualClock

LONG_MS = 60_000


def test_events_come_out_in_order_but_a_suspension_comes_first() -> None:
    inbox = Inbox(ManualClock())
    assert inbox.take() is None
    for event in (CancelRequested(), SuspendRequested(), CancelRequested()):
        inbox.put(event)
    assert [inbox.take() for _ in range(4)] == [SuspendRequested(), CancelRequested(), CancelRequested(), None]


def test_a_wake_up_ends_a_wait_for_input_once_even_if_it_came_before() -> None:
    clock = ManualClock(0)
    inbox = Inbox(clock)
    inbox.wake()
    inbox.wait(LONG_MS)
    assert clock.now_ms() == 0
    inbox.wait(LONG_MS)
    assert clock.now_ms() == LONG_MS
    assert inbox.take() is None, "to be woken up is not to be ended"


def test_a_wake_up_does_not_shorten_the_delay_before_a_restart() -> None:
    clock = ManualClock(0)
    inbox = Inbox(clock)
    inbox.wake()
    assert not inbox.pause(LONG_MS)
    assert clock.now_ms() == LONG_MS


def test_an_event_that_ends_the_job_ends_every_wait() -> None:
    clock = ManualClock(0)
    inbox = Inbox(clock)
    inbox.put(CancelRequested())
    inbox.wait(LONG_MS)
    assert inbox.take() == CancelRequested()
    assert inbox.pause(LONG_MS)
    assert inbox.pause(LONG_MS), "and those after it was taken"
    assert clock.now_ms() == 0
    assert inbox.take() is None, "it is one event"


def test_a_clock_that_comes_to_its_end_cancels_the_job_that_waits_for_it() -> None:
    idle = Inbox(ManualClock(0, until_ms=1_000))
    idle.wait(2_000)
    assert idle.take() == CancelRequested()
    restarting = Inbox(ManualClock(0, until_ms=1_000))
    assert restarting.pause(2_000)
    assert restarting.take() == CancelRequested()


def test_another_thread_ends_a_wait() -> None:
    inbox = Inbox(SystemClock())
    threading.Timer(0.05, lambda: inbox.put(CancelRequested())).start()
    inbox.wait(LONG_MS)
    assert inbox.take() == CancelRequested()


def test_requests_for_a_checkpoint_are_answered_together_and_refused_after_the_end() -> None:
    inbox = Inbox(ManualClock())
    assert not inbox.wants_checkpoint
    first, second = inbox.request_checkpoint(), inbox.request_checkpoint()
    assert inbox.wants_checkpoint
    inbox.checkpoint_completed(EpochId(3))
    assert (first.result(), second.result()) == (3, 3)
    assert not inbox.wants_checkpoint
    waiting, ended = inbox.request_checkpoint(), EpochFailure("ended")
    inbox.close(ended)
    assert waiting.exception() is ended
    assert inbox.request_checkpoint().exception() is ended
