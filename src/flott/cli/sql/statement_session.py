"""Where the statements of a shell run: a session in this process, or one of a gateway (``gateway_session``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flott.common.types import Row
from flott.table._environment.completions import completions
from flott.table._environment.statements import execute_text
from flott.table._types.logical import LogicalType, RowType, row_type
from flott.table._types.record_types import distinct_names

if TYPE_CHECKING:
    from flott.table import TableEnvironment


@dataclass(frozen=True)
class ShownResult:
    """The result of a statement as a shell needs it. ``rows`` may be called once."""

    schema: RowType
    rows: Callable[[], Iterator[Row]]
    json_value: Callable[[Any, LogicalType], Any]  #: makes the JSON form of a value of ``rows``
    success_only: bool = False  #: there is nothing to show but that the statement succeeded
    is_query: bool = False
    changelog: bool = False  #: rows are changes, and shown with their kinds
    job_id: str | None = None
    wait: Callable[[], None] | None = None  #: waits for the job of an INSERT, which ends with the shell
    cancel: Callable[[], None] = field(default=lambda: None)  #: ends a statement whose rows are still coming
    close: Callable[[], None] = field(default=lambda: None)


class ShellSession(Protocol):
    """Runs statements, and keeps their tables and settings."""

    def execute(self, statement: str) -> ShownResult:
        """Run a statement until its result is known. A ``KeyboardInterrupt`` cancels it."""

    def setting(self, key: str, default: str) -> str:
        """Return a setting of the session."""

    def complete(self, text: str) -> Sequence[str]:
        """Return the words that may stand where a text ends."""

    def close(self) -> None:
        """End the session."""


class LocalSession:
    """A session in this process. Its jobs end with it, unless they run on a cluster (``jobs_continue``)."""

    def __init__(self, environment: TableEnvironment, *, jobs_continue: bool = False):
        self.environment = environment
        self._jobs_continue = jobs_continue

    def execute(self, statement: str) -> ShownResult:
        """Run a statement."""
        from flott.rest.gateway.fields import json_field

        found = execute_text(self.environment._session, statement)
        job = found.job

        def wait() -> None:
            assert job is not None
            job.get_job_execution_result().result()

        names = distinct_names(found.schema.names)
        return ShownResult(
            row_type(dict(zip(names, found.schema.types, strict=True))),
            found.rows,
            json_field,
            success_only=found.success_only,
            is_query=found.is_query,
            changelog=found.is_query and self.setting("execution.runtime-mode", "").lower() != "batch",
            job_id=None if job is None else str(job.get_job_id()),
            wait=None if job is None or self._jobs_continue else wait,
            cancel=found.close,
            close=found.close,
        )

    def setting(self, key: str, default: str) -> str:
        """Return a setting."""
        return self.environment.get_config().get(key, default)

    def complete(self, text: str) -> Sequence[str]:
        """Return words."""
        return completions(text, self.environment)

    def close(self) -> None:
        """Leave the jobs as they are: those of this process end with it."""
