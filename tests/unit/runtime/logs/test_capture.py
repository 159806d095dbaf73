"""What functions print and log reaches the driver, with operator and subtask; nothing else does."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from flott.common import Time, Types
from flott.datastream import AsyncDataStream, DataStream
from flott.datastream.functions import AsyncFunction, MapFunction, RuntimeContext
from flott.errors import JobFailedError
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.logs.line import LogLine, TaskLog
from flott.runtime.logs.output_buffer import MAX_MESSAGE
from flott.testing.harness import collect, in_process


class Journal(JobListener):
    """Keeps what tasks said."""

    def __init__(self) -> None:
        self.logs: list[TaskLog] = []

    def on_logs(self, logs: Sequence[TaskLog]) -> None:
        self.logs += logs

    @property
    def lines(self) -> list[LogLine]:
        return [line for log in self.logs for line in log.lines]

    @property
    def messages(self) -> list[str]:
        return [line.message for line in self.lines]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal()
    monkeypatch.setattr(executors, "extra_listeners", [journal])
    return journal


@cache
def event(name: str) -> threading.Event:
    """Functions travel by value, also in-process; what they share is found by name."""
    return threading.Event()


@cache
def barrier() -> threading.Barrier:
    return threading.Barrier(2, timeout=10)


def run(function: Callable[[Any], Any], values: Sequence[Any] = (1,), **options: str) -> list[Any]:
    """A job of one subtask whose function does what is asked."""
    return collect(in_process(parallelism=1, **options).from_collection(list(values)).map(function).name("say"))


def test_a_print_knows_its_operator_task_and_subtask(journal: Journal) -> None:
    env = in_process(parallelism=2)

    def first(value: int) -> int:
        print("first", value)
        return value

    def second(value: int) -> int:
        print("second", value)
        return value

    stream: DataStream[Any] = env.from_collection([1, 2], type_info=Types.INT()).rebalance().map(first).name("one")
    collect(stream.map(second).name("two"))
    found = {(line.message, line.operator, line.task, line.subtask, line.parallelism) for line in journal.lines}
    task = "one -> two"
    subtasks = {line.message: line.subtask for line in journal.lines}
    assert {name for _, _, name, _, _ in found} == {task}
    assert found == {
        (f"{word} {value}", operator, task, subtasks[f"{word} {value}"], 2)
        for word, operator in (("first", "one"), ("second", "two"))
        for value in (1, 2)
    }
    assert subtasks["first 1"] != subtasks["first 2"]
    assert subtasks["first 1"] == subtasks["second 1"]
    assert {(log.host, log.executor, log.epoch) for log in journal.logs} == {("localhost", "in-process", 1)}


def test_streams_and_log_records_keep_their_level_and_origin(journal: Journal) -> None:
    def speak(value: int) -> int:
        print("out")
        print("err", file=sys.stderr)
        logging.getLogger("shop.orders").error("order %d", value)
        try:
            raise KeyError("lost")
        except KeyError:
            logging.exception("it is gone")
        return value

    run(speak)
    kinds = [(line.level, line.logger, line.stream) for line in journal.lines]
    assert kinds == [
        ("INFO", "stdout", "stdout"),
        ("WARNING", "stderr", "stderr"),
        ("ERROR", "shop.orders", None),
        ("ERROR", "root", None),
    ]
    assert journal.messages[:3] == ["out", "err", "order 1"]
    assert journal.messages[3].startswith("it is gone\nTraceback")
    assert {line.operator for line in journal.lines} == {"say"}


def test_a_record_is_heard_once_whatever_handlers_write_it_and_also_without_any(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("test.once")
    logger.propagate = False

    class Roundabout(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            self._show(self.format(record))

        def _show(self, text: str) -> None:
            sys.stdout.write(text + "\n")

    def speak(value: int) -> int:
        if not logger.handlers:
            logger.addHandler(logging.StreamHandler())  # to sys.stderr as it is now
            logger.addHandler(Roundabout())
        logger.warning("once")
        return value

    try:
        run(speak)
    finally:
        logger.handlers.clear()
    assert journal.messages == ["once"]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("once\n", "once\n")


def test_what_is_printed_is_still_printed_and_once(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda value: print("seen", value), [1, 2])
    assert capsys.readouterr().out == "seen 1\nseen 2\n"
    assert journal.messages == ["seen 1", "seen 2"]


def test_prints_outside_tasks_are_left_alone_and_so_are_the_streams(journal: Journal) -> None:
    before, factory = (sys.stdout, sys.stderr), logging.getLogRecordFactory()
    print("before")
    run(lambda value: print("inside"))
    print("after")
    logging.getLogger("outside").error("after")
    assert journal.messages == ["inside"]
    assert (sys.stdout, sys.stderr) == before
    assert logging.getLogRecordFactory() is factory


def test_another_thread_of_the_driver_is_not_taken_for_a_task(journal: Journal) -> None:
    def bystander() -> None:
        event("talk").wait(120)
        print("nobody's")
        event("talked").set()

    thread = threading.Thread(target=bystander)
    thread.start()

    def speak(value: int) -> int:
        event("talk").set()
        event("talked").wait(120)
        print("mine")
        return value

    run(speak)
    thread.join()
    assert journal.messages == ["mine"]


def test_jobs_side_by_side_in_one_process_hear_their_own_only(monkeypatch: pytest.MonkeyPatch) -> None:
    journals = {name: Journal() for name in "ab"}
    def work(name: str) -> None:
        def speak(value: int) -> int:
            barrier().wait()
            print(name, value)
            barrier().wait()
            return value

        run(speak, [1, 2, 3])

    class Router(JobListener):
        def on_logs(self, logs: Sequence[TaskLog]) -> None:
            journals[threading.current_thread().name].on_logs(logs)

    monkeypatch.setattr(executors, "extra_listeners", [Router()])
    threads = [threading.Thread(target=work, args=(name,), name=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: journal.messages for name, journal in journals.items()} == {
        name: [f"{name} 1", f"{name} 2", f"{name} 3"] for name in "ab"
    }


def test_text_without_a_line_break_is_put_together_and_the_rest_comes_at_the_end(journal: Journal) -> None:
    def speak(value: int) -> int:
        print(value, end=",")
        if value == 2:
            print("x\ny", end="")
        return value

    run(speak, [1, 2, 3])
    assert journal.messages == ["1,2,x", "y3,"]
    assert [line.operator for line in journal.lines] == ["say", None], "nobody ended the last one"
    assert "say" in journal.lines[-1].task


def test_two_streams_and_writelines_do_not_mix(journal: Journal) -> None:
    def speak(value: int) -> int:
        sys.stdout.write("a")
        sys.stderr.write("b")
        sys.stdout.writelines(["c\n", "d\n"])
        sys.stderr.write("e\n")
        return value

    run(speak)
    assert [(line.stream, line.message) for line in journal.lines] == [
        ("stdout", "ac"),
        ("stdout", "d"),
        ("stderr", "be"),
    ]


def test_anything_can_be_printed_and_what_is_no_text_is_refused_as_always(journal: Journal) -> None:
    def speak(value: int) -> int:
        print(None, [1], object)
        print()
        with pytest.raises(TypeError):
            sys.stdout.write(5)  # type: ignore[arg-type]
        return value

    run(speak)
    assert journal.messages == ["None [1] <class 'object'>", ""]


def test_broken_unicode_and_huge_lines_can_be_kept(journal: Journal) -> None:
    def speak(value: int) -> int:
        with contextlib.suppress(UnicodeEncodeError):  # the real stream may refuse it, as it always has
            print("half \ud83d of a smile")
        print("é" * (MAX_MESSAGE + 7))
        for _ in range(100):
            print("z" * 1000, end="")
        return value

    run(speak)
    first, second, third = journal.messages
    assert first.encode() == b"half \\ud83d of a smile"
    assert second == "é" * MAX_MESSAGE + "… (7 more characters)"
    assert third == "z" * MAX_MESSAGE + f"… ({100_000 - MAX_MESSAGE:,} more characters)"


def test_a_progress_bar_leaves_its_last_state(journal: Journal) -> None:
    def speak(value: int) -> int:
        for done in range(10_000):
            sys.stderr.write(f"\r{done} done")
        sys.stderr.write("\n")
        print("windows\r")
        return value

    run(speak)
    assert journal.messages == ["9999 done", "windows"]


def test_a_stream_that_the_program_puts_in_its_place_is_respected(journal: Journal) -> None:
    def speak(value: int) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as held:
            print("for the program only")
        print("for all")
        return held.getvalue()

    assert run(speak) == ["for the program only\n"]
    assert journal.messages == ["for all"]


def test_a_program_that_replaces_stdout_for_good_is_heard_once_in_every_epoch(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back at the end

    class Tee(io.TextIOBase):
        def __init__(self, behind: Any):
            self.behind = behind

        def write(self, text: str) -> int:
            self.behind.write(text)
            return len(text)

    class Speak(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            sys.stdout = Tee(sys.stdout)  # type: ignore[assignment]

        def map(self, value: int) -> int:
            print("seen", value)
            return value

    env = in_process(parallelism=1, flott__epoch__max_records="1")
    collect(env.from_collection([1, 2, 3]).map(Speak()))
    assert journal.messages == ["seen 1", "seen 2", "seen 3"]
    assert len(journal.logs) == 3, "every epoch brings its own"


def test_lines_beyond_the_limit_are_counted_and_cost_no_memory(journal: Journal) -> None:
    def speak(value: int) -> int:
        for number in range(30_000):
            sys.stdout.write(f"line {number}\n")
        logging.getLogger("loud").error("and a record")
        print("and one without end", end="")
        return value

    with contextlib.redirect_stdout(_Void()):
        tracemalloc.start()
        run(speak)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert len(journal.lines) == 1001
    assert journal.messages[:2] == ["line 0", "line 1"]
    assert journal.messages[999] == "line 999"
    assert journal.messages[1000].startswith("29,002 more lines were written in this epoch and left out:")
    assert peak < 4_000_000


def test_records_beyond_the_limit_are_counted_once_although_a_handler_writes_them(journal: Journal) -> None:
    def speak(value: int) -> int:
        logger = logging.getLogger("test.counted")
        logger.propagate = False
        handler = logging.StreamHandler()
        logger.addHandler(handler)
        for _ in range(10):
            logger.error("again")
        logger.removeHandler(handler)
        return value

    run(speak, flott__log__task__max_lines="4")
    assert [message.split(":")[0] for message in journal.messages[4:]] == [
        "6 more lines were written in this epoch and left out"
    ]


def test_characters_are_limited_too_and_the_limits_can_be_set(journal: Journal) -> None:
    run(lambda value: print("x" * 400), range(10), flott__log__task__max_size="1kb")
    assert [len(message) for message in journal.messages[:-1]] == [400, 400, 400]
    assert journal.messages[-1].startswith("7 more lines were written")
    journal.logs.clear()
    run(print, range(10), flott__log__task__max_lines="2")
    assert len(journal.lines) == 3
    journal.logs.clear()
    run(print, [1], flott__log__task__max_lines="0")
    assert journal.logs == []
    run(lambda value: print("x\ny"), [1], flott__log__task__max_lines="1")
    assert journal.messages[1].startswith("1 more line was written")


def test_a_quiet_job_sends_nothing(journal: Journal) -> None:
    run(lambda value: value, range(100))
    assert journal.logs == []


def test_a_million_prints_cost_little_more_than_without_a_listener(journal: Journal) -> None:
    lines = 20_000  # far beyond the number of lines that are kept

    def calls(write: Callable[[str], Any]) -> int:
        """How many functions are called; the time they take depends on what else the machine does."""
        called = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal called
            called += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            for _ in range(lines):
                write("a line that is printed\n")
        finally:
            sys.setprofile(None)
        return called

    with contextlib.redirect_stdout(_Void()) as void:
        (made,) = run(lambda value: calls(sys.stdout.write))
        bare = calls(void.write)
    assert made - bare < 20 * lines, f"{(made - bare) / lines:.1f} calls a line"


class _Void(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def test_the_lines_of_a_failed_epoch_come_too_and_those_of_close(journal: Journal) -> None:
    class Fail(MapFunction):
        def map(self, value: int) -> int:
            print("about to fail")
            raise ValueError("no")

        def close(self) -> None:
            print("closed")

    with pytest.raises(JobFailedError):
        run(Fail())
    assert journal.messages == ["about to fail", "closed"]
    assert [(line.operator, line.subtask) for line in journal.lines] == [("say", 0), ("say", 0)]


def test_open_key_selectors_and_sinks_speak_in_the_name_of_their_operator(journal: Journal) -> None:
    class Open(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            print("open")

        def map(self, value: int) -> int:
            return value

    def key(value: int) -> int:
        print("key")
        return value

    env = in_process(parallelism=1)
    collect(env.from_collection([1]).map(Open()).name("opened").key_by(key).map(lambda value: value).name("keyed"))
    operators = {(line.message, line.operator) for line in journal.lines}
    assert ("open", "opened") in operators
    assert ("key", "opened") in operators
    assert {message for message, _ in operators} == {"open", "key"}
    assert None not in {operator for _, operator in operators}


def test_an_asynchronous_function_speaks_for_its_operator_from_the_loops_thread(journal: Journal) -> None:
    class Ask(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            print("asking", value)
            await asyncio.sleep(0)
            print("told", value)
            return [value]

    env = in_process(parallelism=1)
    stream = AsyncDataStream.unordered_wait(env.from_collection([1]), Ask(), Time.seconds(10), capacity=2)
    collect(stream.map(lambda value: value).name("after"))
    assert journal.messages == ["asking 1", "told 1"]
    assert len({line.operator for line in journal.lines}) == 1
    assert "sync" in str(journal.lines[0].operator)


WORKER = """
import logging, sys, threading, warnings
from flott.runtime.logs.capture import TaskCapture, claim_process
from flott.runtime.logs.output_buffer import OutputOrigin
from flott.runtime.logs.line import LogLimits
from flott.runtime.operators.operator import EpochScope

limits = LogLimits(lines=5)
claim_process(limits)

def in_thread(text):
    thread = threading.Thread(target=print, args=(text,))
    thread.start()
    thread.join()

with TaskCapture(limits) as capture:
    capture.turn_to(OutputOrigin("the task", 1, 2, "the operator"), EpochScope())
    in_thread("in a thread")
    logging.getLogger("any").info("for information")
    logging.getLogger("any").debug("in detail")
first = capture.lines()
in_thread("between tasks")
with TaskCapture(limits) as capture:
    print("again")
    warnings.warn("careful")
second = capture.lines()
assert [line.message for line in first] == ["in a thread", "for information"], first
assert [line.message for line in second[:2]] == ["between tasks", "again"], second
(warned,) = second[2:]
assert "UserWarning: careful" in warned.message
assert (warned.level, warned.logger, warned.stream) == ("WARNING", "py.warnings", "stderr")
assert {(line.task, line.operator, line.subtask) for line in (*first, second[0])} == {("the task", "the operator", 1)}

many_times = TaskCapture(limits)
in_thread("before")
with many_times:
    pass
in_thread("between")
with many_times:
    with many_times:
        pass
    in_thread("still in it")
assert [line.message for line in many_times.lines()] == ["before", "between", "still in it"]
assert many_times.lines() == ()
with many_times:
    sys.stdout = sys.__stdout__  # as programs do that want to have the original stream
    assert many_times.lines() == ()
    print("on the original stream")
    assert [line.message for line in many_times.lines()] == ["on the original stream"]
"""


def test_in_a_worker_all_threads_are_heard_also_between_tasks_and_info_is_logged() -> None:
    done = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("in a thread\nbetween tasks\nagain\n")
    assert "UserWarning: careful" in done.stderr
    assert "for information" not in done.stderr, "what nobody handles is not shown below WARNING, as always"


def test_arguments_that_do_not_fit_a_message_and_a_strange_str_disturb_nobody(journal: Journal) -> None:
    class Loud:
        def __str__(self) -> str:
            print("formatted")
            return "loud"

    def speak(value: int) -> int:
        logger = logging.getLogger("test.unfit")
        logger.propagate = False
        logger.addHandler(logging.NullHandler())
        logger.error("%d", "seven")
        logger.error("%s", Loud())
        return value

    run(speak)
    assert journal.messages == ["'%d' with arguments that do not fit", "loud"]


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    yield
    from flott.runtime.logs import capture

    deadline = time.monotonic() + 120
    while capture._switchboard.tasks and time.monotonic() < deadline:
        time.sleep(0.01)  # a job that an earlier test cancelled may be ending in a thread of its own
    assert not capture._switchboard.tasks
    assert capture._here.buffer is None
