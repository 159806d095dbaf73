"""``DataStream.preview``: shows the first records of a stream in a terminal or a notebook. Driver side.

    stream ──► a separate program that ends in this one sink ──► Sample ──► Preview

The environment's program and its sinks are not modified. The job does not use the program's checkpoint directory, does
not restart, and is cancelled when there are enough records.
"""

from __future__ import annotations

import html
import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flott import execution
from flott.common import _options as options
from flott.common._durations import parse_nanos
from flott.common.config_options import ConfigOption
from flott.common.configuration import Configuration
from flott.common.job_client import JobClient
from flott.common.time import Duration, Time
from flott.datastream._record_table import columns_of, html_table, text_table
from flott.datastream._step_settings import is_integer
from flott.datastream.connectors.sample import SampleSink
from flott.errors import JobCancelledError, ProgramError
from flott.graph.specs import SinkSpec
from flott.graph.transformations import Operation, Partition, Program, TransformationId
from flott.graph.translate import translate

if TYPE_CHECKING:
    from flott.datastream._data_stream import DataStream

T = TypeVar("T")

log = logging.getLogger("flott.job")

#: How long a complete preview waits to find out whether the stream has ended.
SETTLING_SECONDS = 0.5

#: How long it waits for its cancelled job to end.
CANCEL_SECONDS = 10.0

#: Its epochs start small and stay short, so that the first records appear early.
FIRST_EPOCH_RECORDS = 200
EPOCH_MILLISECONDS = 500


@dataclass(frozen=True, repr=False)
class Preview(Generic[T]):
    """The first records of a stream. It is printed as a table, also in a notebook."""

    records: tuple[T, ...]
    columns: tuple[str, ...]  #: the heads of the table
    is_complete: bool  #: the stream has ended, and these are all its records
    has_more: bool  #: there were more records
    elapsed: Duration  #: since the start of the job

    def __iter__(self) -> Iterator[T]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        return f"{text_table(self.columns, self.records)}\n\n{self._note()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{html_table(self.columns, self.records)}<p>{html.escape(self._note())}</p>"

    def _note(self) -> str:
        number = len(self.records)
        counted = {0: "no records", 1: "1 record"}.get(number, f"{number} records")
        if self.is_complete:
            return f"all {counted}" if number > 1 else f"{counted}, the stream has ended"
        seconds = self.elapsed.to_nanos() / 1e9
        return f"{counted} in {seconds:.1f} s, {'more follow' if self.has_more else 'more may follow'}"


class Sample(Generic[T]):
    """The first records of a job. The job's thread fills it, the program's thread waits for it."""

    def __init__(self, size: int):
        self._size = size
        self._changed = threading.Condition()
        # These are guarded by _changed:
        self._records: list[T] = []  #: at most one more than the size
        self._ended = False

    def receive(self, values: Sequence[T]) -> None:
        """Keep the records that are still needed. It never waits, so that the job can always end."""
        with self._changed:
            self._records.extend(values[: self._size + 1 - len(self._records)])
            self._changed.notify_all()

    def end(self) -> None:
        """Mark the end of the job."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until the sample is full, the job has ended, or the timeout.

        If it is full, wait a little longer for the end.
        """
        until = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(self._records) >= self._size, seconds)
            left = min(SETTLING_SECONDS, max(0.0, until - time.monotonic()))
            if len(self._records) >= self._size:
                self._changed.wait_for(lambda: self._ended or len(self._records) > self._size, left)

    def taken(self) -> list[T]:
        """Return the records so far: one more than needed if there were more."""
        with self._changed:
            return list(self._records)


def take_preview(stream: DataStream[T], size: int, timeout: object) -> Preview[T]:
    """Run the part of the program that leads to the stream, until there are enough records."""
    if not (is_integer(size) and size >= 1):
        raise ProgramError(f"preview() shows a number of records of at least 1, found {size!r}.")
    seconds = timeout_seconds(timeout)
    sample: Sample[T] = Sample(size)
    client = _start(stream, sample, size)
    started = time.monotonic()
    result = client.get_job_execution_result()
    result.when_done(lambda _: sample.end())
    try:
        sample.wait(seconds)
    finally:
        elapsed = Duration(int((time.monotonic() - started) * 1e9))
        ended = result.done()
        if not ended:
            _cancel(client)
    taken, failure = sample.taken(), result.exception()
    if failure is not None and len(taken) < size and (ended or not isinstance(failure, JobCancelledError)):
        raise failure
    records, has_more = tuple(taken[:size]), len(taken) > size
    return Preview(
        records=records,
        columns=columns_of(records, stream.get_type()),
        is_complete=result.done() and failure is None and not has_more,
        has_more=has_more,
        elapsed=elapsed,
    )


def show(preview: Preview[Any]) -> None:
    """Write the preview to standard output, unless a notebook or an interactive Python shows it anyway."""
    if _is_interactive():
        return
    text = f"{preview}\n"
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:  # the terminal's encoding lacks characters of the records
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def timeout_seconds(timeout: object) -> float:
    """Return the seconds of a text with a unit, a Duration, a Time, a timedelta, or a number of seconds."""
    match timeout:
        case str() if not timeout.strip().isdecimal():  # a number without a unit would be milliseconds in Flink
            try:
                seconds = parse_nanos(timeout) / 1e9
            except ValueError:
                seconds = -1.0
        case Duration():
            seconds = timeout.to_nanos() / 1e9
        case Time():
            seconds = timeout.to_milliseconds() / 1e3
        case timedelta():
            seconds = timeout.total_seconds()
        case int() | float() if not isinstance(timeout, bool):
            seconds = float(timeout)
        case _:
            seconds = -1.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ProgramError(
            f'The timeout of preview() is a duration such as "5s", or a number of seconds, above 0; found {timeout!r}.'
        )
    return seconds


def preview_configuration(configuration: Configuration, size: int) -> Configuration:
    """Return the program's settings without those of its own job: checkpoints, restarts, display."""
    own = Configuration(configuration)
    dropped: list[ConfigOption[Any]] = [options.RECOVERY_PATH, options.RECOVER_FROM_LATEST]
    # If executors may be on other machines, it uses a separate folder in there, which is deleted afterwards.
    if not options.needs_shared_storage(configuration) and options.read(configuration, options.TARGET) != "remote":
        dropped.append(options.CHECKPOINT_DIR)
    for option in dropped:
        for key in option.spellings():
            own.remove_config(key)
    own.set(options.CHECKPOINT_RETENTION, "DELETE_ON_CANCELLATION")
    own.set(options.RESTART_STRATEGY, "none")
    own.set(options.PROGRESS, "off")
    first = min(options.read(own, options.EPOCH_INITIAL_RECORDS), max(size, FIRST_EPOCH_RECORDS))
    own.set(options.EPOCH_INITIAL_RECORDS, first)
    own.set(options.EPOCH_TARGET_DURATION, min(options.read(own, options.EPOCH_TARGET_DURATION), EPOCH_MILLISECONDS))
    return own


def _start(stream: DataStream[T], sample: Sample[T], size: int) -> JobClient:
    environment = stream._environment
    options.validate(environment._configuration)
    ident = _origin(environment._program, stream._id)
    program = environment._program.leading_to(ident)
    sink = Operation(SinkSpec(SampleSink(size + 1, sample.receive)))
    # One subtask, so that the order of each split is kept.
    program.add("Sink: Preview", sink, (ident,), uid="flott.preview", parallelism=1)
    defaults = environment._defaults(None)
    looking = replace(defaults, job_name=f"Preview of {defaults.job_name}", side_effects=False)
    graph = translate(program, looking)
    configuration = preview_configuration(environment._configuration, size)
    return execution.executor_of(configuration).submit(graph, configuration)


def _origin(program: Program, ident: TransformationId) -> TransformationId:
    """Return the step that produces the records. Their distribution over subtasks does not matter for a preview."""
    while isinstance(program[ident].step, Partition):
        (ident,) = program[ident].inputs
    return ident


def _cancel(client: JobClient) -> None:
    try:
        client.cancel().result(CANCEL_SECONDS)
    except TimeoutError:
        log.warning("The job of a preview was cancelled and has not ended after %g s; it ends later.", CANCEL_SECONDS)
    except Exception:
        if not client.get_job_execution_result().done():  # otherwise it ended before it could be cancelled
            raise


def _is_interactive() -> bool:
    """Return whether the environment shows the value of an expression."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return hasattr(sys, "ps1") or shell() is not None
