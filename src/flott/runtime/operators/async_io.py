"""Asynchronous functions: many calls wait at once, and the task goes on reading meanwhile. Task side.

    task's thread    process ── hand over a batch ─►              ◄─ take what finished ── process, advance ─► emit
    loop's thread                                   start · wait · try again · time out · finish

At the end of the epoch all calls are waited for: nothing is in flight at a checkpoint, so nothing of it is saved.
"""

from __future__ import annotations

import asyncio
import reprlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from flott.datastream.functions._async import AsyncFunction, AsyncRetryStrategy
from flott.datastream.functions._callables import as_async_invoke
from flott.datastream.state._descriptors import StateDescriptor
from flott.errors import ProgramError
from flott.graph.specs import AsyncSpec
from flott.metrics import Counter
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.call_window import Call, CallWindow, Invoke, SentBatch, listed
from flott.runtime.operators.context import TaskRuntimeContext
from flott.runtime.operators.event_loop import GRACE_S, EventLoopThread, finish_with_tasks
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.operator import EventTime, OperatorContext, RecordFailure


class AsyncOperator(FunctionOperator):
    """Emits the results of an AsyncFunction, or of a plain coroutine function."""

    def __init__(self, context: OperatorContext, spec: AsyncSpec):
        super().__init__(context, spec.function)
        self.runtime_context = _StatelessContext(context, self.metrics)
        self._spec = spec
        self._thread: EventLoopThread | None = None
        self._window: CallWindow | None = None
        self._handed_over = 0  #: records ever given to the window
        self._interrupted = False

    # --- life --------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._thread = EventLoopThread(f"flott-async {self.context.task_name} {self.context.subtask}")
        self._thread.run(self._open())

    async def _open(self) -> None:
        super().open()  # the function's open() finds a running loop

    def prepare(self) -> None:
        assert self._thread is not None
        self._window = CallWindow(self._thread.loop, self._spec, self._invoke(), self._on_timeout(), self.context)
        if self._interrupted:
            self._window.interrupt()

    def _invoke(self) -> Invoke:
        invoke, retry = as_async_invoke(self.function), self._spec.retry
        predicate = retry.get_retry_predicate()
        if predicate.result_predicate() is None and predicate.exception_predicate() is None:
            return invoke
        return retrying(invoke, retry, self.metrics.add_group("async").counter("retries"))

    def _on_timeout(self) -> Callable[[Any], Iterable[Any]]:
        timeouts = self.metrics.add_group("async").counter("timeouts")
        answer = _timeout_of(self.function) or _complaint(self.context.operator.label, self._spec.timeout_ms)

        def on_timeout(value: Any) -> Iterable[Any]:
            timeouts.inc()
            return answer(value)

        return on_timeout

    def interrupt(self) -> None:
        self._interrupted = True
        if self._window is not None:
            self._window.interrupt()

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        is_blocked = False
        try:
            if self._window is not None:
                thread.run(self._window.give_up(), timeout_s=2 * GRACE_S)
            thread.run(finish_with_tasks(super().close))
        except TimeoutError as error:
            is_blocked = True
            raise self.failure("cancelling its calls, of which one blocks the event loop") from error
        finally:
            thread.end(wait=not is_blocked)

    # --- records -----------------------------------------------------------------------------------------------------

    def process(self, batch: RowBatch) -> None:
        window = self._window
        assert window is not None
        sent = SentBatch(self._handed_over, batch, self.context.scope.origin)
        window.hand_over([Call(sent, index) for index in range(len(batch))])
        self._handed_over += len(batch)
        # All batches before this one must have begun. This one may wait for its turn while the next is being read.
        window.wait_for(sent.number - self._spec.capacity)
        self._collect(window, sent)

    def advance(self, time: EventTime) -> EventTime:
        window = self._window
        assert window is not None
        window.wait_for(self._handed_over)
        self._collect(window)
        return super().advance(time)

    def _collect(self, window: CallWindow, current: SentBatch | None = None) -> None:
        """Emit what has finished, unless something has failed."""
        if window.failed is not None:
            call, error = window.failed
            raise self._failure_of(call, current) from error
        while window.finished:
            self._emit_some(window.finished)

    def _emit_some(self, finished: deque[Call]) -> None:
        """Take results until they make a batch; they all have timestamps, or none of them has."""
        last = finished[0].batch
        batches = [last]
        values: list[Any] = []
        timestamps: list[int] | None = None if last.timestamps is None else []
        while finished and len(values) < MAX_BATCH_RECORDS:
            batch = finished[0].batch
            if batch is not last:
                if (batch.timestamps is None) is not (timestamps is None):
                    break
                batches.append(batch)
                last = batch
            call = finished.popleft()
            results = call.results or ()
            values += results
            if timestamps is not None:
                timestamps += [batch.timestamps[call.index]] * len(results)  # type: ignore[index]  # they have some
        try:
            for start in range(0, len(values), MAX_BATCH_RECORDS):
                stop = start + MAX_BATCH_RECORDS
                stamps = None if timestamps is None else timestamps[start:stop]
                self.emit(RowBatch(values[start:stop], stamps))
        except RecordFailure as failure:
            failure.origin = failure.origin or _span(batches)
            raise

    def _failure_of(self, call: Call, current: SentBatch | None) -> RecordFailure:
        key, has_key = self._key_of(call.value, 0)
        is_current = call.batch is current  # then it is known exactly where the record comes from
        return self.failure(
            "processing a record",
            record=call.value,
            has_record=True,
            key=key,
            has_key=has_key,
            timestamp=call.timestamp,
            index=call.index if is_current else None,
            origin=None if is_current else call.batch.origin,
        )


class _StatelessContext(TaskRuntimeContext):
    """A runtime context without keyed state: which key is the current one, when many are at work?"""

    def _keyed(self, descriptor: StateDescriptor) -> NoReturn:
        raise ProgramError(
            f"Operator {self._context.operator.label} asks for the keyed state {descriptor.name!r}, which asynchronous"
            " functions do not have: they work on records of many keys at the same time. Read the state in a process()"
            " before it, and pass what is needed along with the record."
        )


def retrying(invoke: Invoke, strategy: AsyncRetryStrategy[Any], retries: Counter) -> Invoke:
    """Return ``invoke``, tried again as often as the strategy says."""
    predicate = strategy.get_retry_predicate()
    is_poor = predicate.result_predicate() or _never
    is_passing = predicate.exception_predicate() or _never

    async def invoke_again(value: Any) -> list[Any]:
        attempts = 1
        while True:
            try:
                results = await invoke(value)
            except Exception as error:
                if not (is_passing(error) and strategy.can_retry(attempts)):
                    raise
            else:
                results = listed(results)
                if not (is_poor(results) and strategy.can_retry(attempts)):
                    return results
            retries.inc()
            await asyncio.sleep(strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    return invoke_again


def _never(_: Any) -> bool:
    return False


def _timeout_of(function: Any) -> Callable[[Any], Iterable[Any]] | None:
    """Return the function that gives a result in place of one that is not there in time, if there is one."""
    if not isinstance(function, AsyncFunction):
        return None
    is_default = getattr(function.timeout, "__func__", None) is AsyncFunction.timeout
    return None if is_default else function.timeout


def _complaint(label: str, timeout_ms: int) -> Callable[[Any], NoReturn]:
    def complain(value: Any) -> NoReturn:
        raise TimeoutError(
            f"Operator {label} had no result for {reprlib.repr(value)} after {timeout_ms} ms. Allow it more time, or"
            " override timeout() of an AsyncFunction to give a result nevertheless."
        )

    return complain


def _span(batches: list[SentBatch]) -> tuple[str, str] | None:
    """Return where the records of some batches come from: the first place and the last."""
    first = min(batches, key=lambda batch: batch.number).origin
    last = max(batches, key=lambda batch: batch.number).origin
    return None if first is None or last is None else (first[0], last[1])
