"""Executors as task managers; who waits and why; when more are asked for. No Spark."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Configuration
from flott.common.job_status import JobStatus
from flott.errors import WorkerLostError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.resources import (
    PATIENCE,
    ResourceManager,
    executors_to_ask_for,
    reasons_to_wait,
    starving,
)
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.spark.application import ExecutorReading, JobTasks, SparkReading
from flott.testing.clock import ManualClock

A, B, C = "a" * 32, "b" * 32, "c" * 32


def job(ident: str, name: str, status: JobStatus = JobStatus.RUNNING) -> JobView:
    return JobView(ident, name, status, start_ms=0)


def reading(*running: int, slots: int = 2, tasks: Mapping[str, JobTasks] | None = None) -> SparkReading:
    """Executors of two slots each, with so many tasks running in each."""
    executors = tuple(
        ExecutorReading(str(number), "host", 7000 + number, slots, slots, running_tasks=count, heap_bytes=1000)
        for number, count in enumerate(running)
    )
    return SparkReading(executors, tasks or {})


class FakeSpark:
    """Executors that a test sets."""

    def __init__(self, *answers: SparkReading | Exception, grows: bool = False, begins_with: int = 0):
        self.answers = list(answers)
        self.begins_with = begins_with
        self.grows = grows
        self.requests: list[int] = []
        self.asked = threading.Event()

    def read(self) -> SparkReading:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.asked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def can_grow(self) -> bool:
        return self.grows

    def ordered(self) -> int:
        return self.begins_with

    def request(self, executors: int) -> bool:
        self.requests.append(executors)
        return True


def manager(spark: FakeSpark, clock: ManualClock | None = None, **options: str) -> ResourceManager:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    return ResourceManager(spark, configuration, clock or ManualClock())


# ---- task managers ---------------------------------------------------------------------------------------------------


def test_an_executor_is_a_task_manager_with_slots() -> None:
    executor = ExecutorReading(
        "3", "host", 7000, slots=4, cores=8, running_tasks=3, completed_tasks=10, failed_tasks=1, started_ms=5,
        heap_bytes=1000, heap_used_bytes=300, metrics={"x": 1}, log_urls={"stdout": "http://host"},
    )  # fmt: skip
    clock = ManualClock()
    resources = manager(FakeSpark(SparkReading((executor,))), clock, taskmanager__memory__managed__size="64mb")
    resources.refresh()
    (view,) = resources.task_managers()
    assert (view.id, view.host, view.port) == ("3", "host", 7000)
    assert (view.slots, view.free_slots, view.cores) == (4, 1, 8)
    assert (view.memory_bytes, view.free_bytes, view.managed_bytes) == (1000, 700, 64 << 20)
    assert (view.running_tasks, view.completed_tasks, view.failed_tasks, view.started_ms) == (3, 10, 1, 5)
    assert view.heartbeat_ms == clock.now_ms()
    assert (view.metrics, view.log_urls) == ({"x": 1}, {"stdout": "http://host"})
    assert view.memory_is_peak


def test_when_spark_does_not_answer_the_last_view_stays_and_its_heartbeat_grows_old(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    spark = FakeSpark(reading(1), WorkerLostError("gone"), ValueError("odd"), reading(0, 0))
    resources = manager(spark, clock)
    resources.refresh()
    seen_ms = clock.now_ms()
    for _ in range(2):
        clock.advance(1000)
        resources.refresh()
        (view,) = resources.task_managers()
        assert view.heartbeat_ms == seen_ms
    assert [record.message for record in caplog.records] == [
        "The executors cannot be read, what is shown of them grows old: gone"
    ]
    resources.refresh()
    assert [view.heartbeat_ms for view in resources.task_managers()] == [clock.now_ms()] * 2


def test_before_spark_has_answered_there_is_nobody_and_every_job_is_told_so() -> None:
    resources = manager(FakeSpark(WorkerLostError("not yet")))
    resources.refresh()
    assert resources.task_managers() == ()
    assert resources.waiting([job(A, "a")]) == {A: "Spark has not said yet which executors there are."}


def test_the_thread_reads_at_once_and_again_and_ends() -> None:
    spark = FakeSpark(reading(0))
    resources = ResourceManager(spark, Configuration(), SystemClock())
    resources.start()
    assert [view.free_slots for view in resources.task_managers()] == [2], "the first reading is not waited for"
    spark.asked.clear()
    assert spark.asked.wait(120)
    resources.stop()
    assert not any(thread.name == "resource-manager" for thread in threading.enumerate())


# ---- who waits, and why ----------------------------------------------------------------------------------------------


def test_without_executors_every_job_with_tasks_waits_for_one_unless_it_has_ended() -> None:
    jobs = [job(A, "a"), job(B, "b", JobStatus.FINISHED), job(C, "c")]
    nobody = reading(tasks={A: JobTasks(0, 2), B: JobTasks(0, 2)})
    starved = starving(starving({}, nobody), nobody)
    (words,) = reasons_to_wait(jobs, nobody, starved, master="spark://host:7077").values()
    assert words == (
        "No executor is registered with Spark (spark://host:7077), so there are no slots. The job goes on as soon as"
        " the master has given one: it needs a machine with enough free cores and memory."
    )
    assert set(reasons_to_wait(jobs, nobody, starved)) == {A}, "one has ended, the other has nothing to do just now"
    assert "so there are no slots. 3 were asked for. " in reasons_to_wait(jobs, nobody, starved, asked_for=3)[A]


def test_a_job_of_which_no_task_runs_waits_for_those_that_take_all_slots() -> None:
    jobs = [job(A, "etl"), job(B, "fraud"), job(C, "idle")]
    now = reading(2, 2, tasks={A: JobTasks(3, 5), B: JobTasks(0, 8), "d" * 32: JobTasks(1, 0)})
    starved = starving(starving({}, now), now)
    assert starved == {B: 2}
    assert reasons_to_wait(jobs, now, starved) == {
        B: "All 4 slots are busy with 'etl' (3), job dddddddd (1); the job asks for 4 of 4."
    }
    assert reasons_to_wait(jobs, now, starved, asked_for=4)[B].endswith("2 more executors were asked for.")


def test_the_only_slot_and_a_crowd_are_told_in_words() -> None:
    others = {character * 32: JobTasks(1, 0) for character in "0123456"}
    now = reading(1, slots=1, tasks={**others, A: JobTasks(0, 1)})
    (words,) = reasons_to_wait([job(A, "a")], now, {A: 2}).values()
    assert words.startswith("The only slot is busy with job 00000000 (1), ")
    assert words.endswith(" and 2 other jobs; the job asks for 1 of 1.")


def test_tasks_that_take_turns_do_not_wait_and_neither_does_who_waits_for_a_moment() -> None:
    wide = reading(2, tasks={A: JobTasks(2, 100)})
    assert starving({A: 7}, wide) == {}
    moment = reading(2, tasks={A: JobTasks(0, 2), B: JobTasks(2, 0)})
    assert reasons_to_wait([job(A, "a")], moment, starving({}, moment)) == {}
    assert starving({A: 5}, reading(1, tasks={A: JobTasks(0, 2)})) == {}, "a slot is free: it is about to begin"


def test_the_resource_manager_says_who_waits() -> None:
    crowded = reading(2, tasks={A: JobTasks(2, 0), B: JobTasks(0, 1)})
    resources = manager(FakeSpark(crowded, crowded, reading(1)))
    jobs = [job(A, "a"), job(B, "b")]
    resources.refresh()
    assert resources.waiting(jobs) == {}
    resources.refresh()
    assert resources.waiting(jobs) == {B: "All 2 slots are busy with 'a' (2); the job asks for 1 of 2."}
    assert set(resources.waiting([jobs[1]])) == {B}, "also if only one job is asked about"
    resources.refresh()
    assert resources.waiting(jobs) == {}


# ---- asking for more -------------------------------------------------------------------------------------------------


@given(
    demand=st.integers(0, 200), have=st.integers(0, 20), size=st.integers(1, 8),
    asked=st.integers(0, 30), most=st.integers(1, 100),
)  # fmt: skip
def test_what_is_asked_for_is_enough_but_never_more_than_allowed_and_never_less_than_before(
    demand: int, have: int, size: int, asked: int, most: int
) -> None:
    wanted = executors_to_ask_for(demand, reading(*[0] * have, slots=size), asked, most)
    if wanted is None:
        enough = max(have, asked) * size >= demand
        assert not have or enough or (max(have, asked) + 1) * size > most
    else:
        assert wanted > max(have, asked)
        assert wanted * size <= most
        assert (wanted - 1) * size < demand


def test_executors_are_asked_for_when_tasks_wait_for_a_while_and_only_once() -> None:
    crowded = reading(2, 2, tasks={A: JobTasks(4, 5)})
    spark = FakeSpark(crowded, grows=True)
    resources = manager(spark)
    for _ in range(PATIENCE - 1):
        resources.refresh()
    assert spark.requests == []
    for _ in range(10):
        resources.refresh()
    assert spark.requests == [5], "nine tasks, two slots each; and nothing new is asked for until they are there"


def test_executors_that_spark_has_asked_for_by_itself_are_not_given_up_while_they_are_coming() -> None:
    spark = FakeSpark(reading(2, tasks={A: JobTasks(2, 3)}), grows=True, begins_with=4)
    resources = manager(spark)
    for _ in range(10):
        resources.refresh()
    assert spark.requests == [], "a request for three in all would take one of the four back"
    spark.answers = [reading(2, tasks={A: JobTasks(2, 9)})]
    for _ in range(10):
        resources.refresh()
    assert spark.requests == [6]


def test_a_moment_without_waiting_tasks_begins_the_count_anew_and_the_limit_holds() -> None:
    crowded = reading(2, 2, tasks={A: JobTasks(4, 50)})
    spark = FakeSpark(crowded, crowded, reading(2, 1), crowded, crowded, reading(2, 1), crowded, grows=True)
    resources = manager(spark, slotmanager__number_of_slots__max="11")
    for _ in range(6):
        resources.refresh()
    assert spark.requests == []
    for _ in range(PATIENCE):
        resources.refresh()
    assert spark.requests == [5], "eleven slots are five executors of two"


def test_a_master_that_cannot_provide_any_is_never_asked() -> None:
    spark = FakeSpark(reading(2, tasks={A: JobTasks(2, 50)}), grows=False)
    resources = manager(spark)
    for _ in range(10):
        resources.refresh()
    assert spark.requests == []
