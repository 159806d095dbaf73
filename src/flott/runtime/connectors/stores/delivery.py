"""Sends requests until each action is done, superseded or rejected, or patience is exhausted. Task side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from flott.datastream.connectors._stores import RetryPolicy
from flott.errors import ConnectorError
from flott.runtime.clock import Clock
from flott.runtime.connectors.stores.actions import ActionOutcome, ActionVerdict, Unavailable

A = TypeVar("A")
_SHOWN = 300


def deliver(
    actions: list[A],
    send: Callable[[list[A]], Sequence[ActionOutcome]],
    retries: RetryPolicy,
    clock: Clock,
    random: Random,
    whom: str,
) -> list[tuple[A, str]]:
    """Send the actions and send again what may be retried. Return what was rejected, with the reasons.

    An action that is done is not sent again, so the attempts of a request become smaller.
    """
    rejected: list[tuple[A, str]] = []
    attempts = 0
    while actions:
        attempts += 1
        retry_after_ms, retried, reason = None, actions, ""
        try:
            outcomes = send(actions)
        except Unavailable as failure:
            reason, retry_after_ms = failure.reason, failure.retry_after_ms
        else:
            judged = list(zip(actions, outcomes, strict=True))
            rejected += [(action, said.reason) for action, said in judged if said.verdict is ActionVerdict.REJECTED]
            retried = [action for action, said in judged if said.verdict is ActionVerdict.RETRY]
            reason = next((said.reason for said in outcomes if said.verdict is ActionVerdict.RETRY), "")
        actions = retried
        if actions:
            if attempts >= retries.max_attempts:
                raise ConnectorError(
                    f"{whom} did not accept {len(actions)} changes in {attempts} attempts; it last said:"
                    f" {reason[:_SHOWN]}. Look at the server, or allow more attempts in the sink's retry policy."
                )
            delay_ms = retries.delay_ms(attempts, random.random())
            clock.wait(threading.Event(), max(delay_ms, min(retry_after_ms or 0, retries.max_delay_ms)))
    return rejected
