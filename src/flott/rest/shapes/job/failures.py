"""Failure cards: what failed, where, with which record, and the command that runs the epoch again. Pure."""

from __future__ import annotations

import shlex

from typing_extensions import TypedDict

from flott.runtime.jobmanager.views.job_view import FailureCardView, FailureView, JobView

FailureCardShape = TypedDict(
    "FailureCardShape",
    {
        "blame": str,
        "error": str,
        "traceback": str,
        "epoch": int,
        "attempt": int,
        "subtask": int,
        "parallelism": int | None,
        "vertex": str,
        "operator": str | None,
        "uid": str | None,
        "defined-at": str | None,
        "activity": str | None,
        "key": str | None,
        "record": str | None,
        "timestamp": int | None,
        "origin": list[str] | None,
    },
)


class FailureLine(TypedDict):
    at: int
    name: str
    text: str
    task: str | None
    host: str | None
    executor: str | None
    card: FailureCardShape | None
    replay: str | None


JobFailures = TypedDict(
    "JobFailures",
    {
        "restart-strategy": str,
        "restarts": int,
        "truncated": bool,
        "failures": list[FailureLine],
    },
)


def job_failures(job: JobView) -> JobFailures:
    """Return the last failures, the newest first."""
    return {
        "restart-strategy": job.restart_strategy,
        "restarts": job.restarts,
        "truncated": job.failures_truncated,
        "failures": [_line(job, failure) for failure in job.failures],
    }


def replay_line(job_id: str, card: FailureCardView) -> str:
    """Return the command that runs the failed epoch again, quoted for a shell.

    A name that begins with a dash would be read as an option, so values follow an equals sign.
    """
    words = ["flott", "replay", job_id, f"--epoch={card.epoch}"]
    if (operator := card.uid or card.operator) is not None:
        words.append(f"--operator={operator}")
    return shlex.join(words)


def _line(job: JobView, failure: FailureView) -> FailureLine:
    card = failure.card
    return {
        "at": failure.at_ms,
        "name": failure.name,
        "text": failure.text,
        "task": failure.task,
        "host": failure.endpoint,
        "executor": failure.task_manager,
        "card": None if card is None else _card(card),
        "replay": None if card is None else replay_line(job.job_id, card),
    }


def _card(card: FailureCardView) -> FailureCardShape:
    return {
        "blame": card.blame,
        "error": card.error,
        "traceback": card.traceback,
        "epoch": card.epoch,
        "attempt": card.attempt,
        "subtask": card.subtask,
        "parallelism": card.parallelism,
        "vertex": card.vertex,
        "operator": card.operator,
        "uid": card.uid,
        "defined-at": card.user_line,
        "activity": card.activity,
        "key": card.key,
        "record": card.record,
        "timestamp": card.timestamp,
        "origin": None if card.origin is None else list(card.origin),
    }
