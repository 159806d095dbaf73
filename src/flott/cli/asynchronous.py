"""Orders that take their time: REST answers them with an id, and is asked for the outcome until there is one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from flott import errors
from flott.cli.invocation import Invocation
from flott.cli.progress import Asks
from flott.errors import ClusterError, FlottError
from flott.runtime.clock import Clock, SystemClock

#: The pauses between two questions grow up to the last one.
_FIRST_PAUSE_MS = 20
_LAST_PAUSE_MS = 1000


def await_operation(client: Asks, path: str, clock: Clock | None = None) -> Mapping[str, Any]:
    """The outcome of the operation whose status is at ``path``; raises what went wrong."""
    clock = clock or SystemClock()
    never = threading.Event()
    pause_ms = _FIRST_PAUSE_MS
    while True:
        answer = client.get(path)
        if answer["status"]["id"] == "COMPLETED":
            return _outcome(answer.get("operation") or {})
        clock.wait(never, pause_ms)
        pause_ms = min(pause_ms * 2, _LAST_PAUSE_MS)


def conclude_savepoint(invocation: Invocation, job: str, trigger: str, detached: str | None) -> None:
    """Say where the savepoint is once it is taken; with a sentence for who does not wait, that and the trigger."""
    terminal = invocation.terminal
    if detached is not None:
        terminal.line(f"{detached}, triggerId: {trigger}")
        found = {"jid": job, "trigger": trigger}
    else:
        path = await_operation(invocation.client, f"/jobs/{job}/savepoints/{trigger}")["location"]
        terminal.line(f"Savepoint completed. Path: {path}")
        found = {"jid": job, "savepoint": path}
    if terminal.json:
        terminal.document(found)


def _outcome(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    failure = operation.get("failure-cause")
    if failure is not None:
        raise _error(str(failure["class"]), str(failure["stack-trace"]))
    return operation


def _error(name: str, text: str) -> FlottError:
    """The error the JobManager had, so that the exit code is the right one."""
    kind: object = getattr(errors, name.rpartition(".")[2], None)
    message = text.removeprefix(f"{name}: ").strip()
    return kind(message) if isinstance(kind, type) and issubclass(kind, FlottError) else ClusterError(message)
