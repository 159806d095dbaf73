"""Orders that take their time: REST answers them with an id, and is asked for the outcome until there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from flott import errors
from flott.client.pauses import Pauses
from flott.errors import ClusterError, FlottError
from flott.runtime.clock import Clock, SystemClock


class Asks(Protocol):
    """The part of ``RestClient`` that is needed to look at something."""

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a question."""


def await_operation(client: Asks, path: str, clock: Clock | None = None) -> Mapping[str, Any]:
    """The outcome of the operation whose status is at ``path``; raises what went wrong."""
    pauses = Pauses(clock or SystemClock())
    while (answer := client.get(path))["status"]["id"] != "COMPLETED":
        pauses.wait()
    operation: Mapping[str, Any] = answer.get("operation") or {}
    failure = operation.get("failure-cause") or operation.get("failureCause")  # Flink's spelling for checkpoints
    if failure is not None:
        raise _error(str(failure["class"]), str(failure["stack-trace"]))
    return operation


def _error(name: str, text: str) -> FlottError:
    """The error the JobManager had, so that here it is caught, and has the exit code, as it would there."""
    kind: object = getattr(errors, name.rpartition(".")[2], None)
    message = text.removeprefix(f"{name}: ").strip()
    return kind(message) if isinstance(kind, type) and issubclass(kind, FlottError) else ClusterError(message)
