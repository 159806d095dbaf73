"""What a pipelined job does and says while its slots are missing."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flott.runtime.pipelined.control import SlotEvent, SlotLost
from flott.runtime.spark.application import ExecutorReading, JobTasks, SparkReading
from flott.runtime.spark.executors import most_slots
from flott.runtime.spark.missing_slots import REGISTERING_MS, MissingSlots, missing
from flott.testing.clock import ManualClock

OWN, OTHER, THIRD = "a" * 32, "b" * 32, "c" * 32


def reading(running: int, **tasks: JobTasks) -> SparkReading:
    return SparkReading((ExecutorReading("0", "here", 1, slots=4, cores=4, running_tasks=running),), tasks)


def test_it_says_how_many_are_free_who_holds_the_others_and_what_to_do() -> None:
    said = missing(2, reading(3, **{OTHER: JobTasks(3), OWN: JobTasks(0, 2)}), OWN)
    assert said == (
        "the pipelined job needs 2 cores of Spark at the same time and occupies them as long as it runs, but 1 of 4 are"
        f" free. Cores are held by job {OTHER}. Cancel another job, give Spark more cores (spark.master, executors), or"
        " lower parallelism.default"
    )


def test_several_jobs_are_named_and_those_that_only_wait_are_not() -> None:
    tasks = {THIRD: JobTasks(2), OTHER: JobTasks(2), OWN: JobTasks(0, 4), "d": JobTasks(0, 4)}
    said = missing(4, reading(4, **tasks), OWN)
    assert f"0 of 4 are free. Cores are held by the jobs {OTHER}, {THIRD}. Cancel" in said


def test_without_other_jobs_none_is_named() -> None:
    assert "4 of 4 are free. Cancel" in missing(5, reading(0), OWN)


# --- executors that register late -------------------------------------------------------------------------------------


class Registering:
    """Executors that register one after the other: it plays how many slots there are."""

    def __init__(self, *slots: int):
        self.left, self.asked = list(slots), 0

    def slots(self) -> int:
        self.asked += 1
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def read(self, *, with_tasks: bool) -> SparkReading:
        return SparkReading((ExecutorReading("0", "here", 1, slots=self.left[0], cores=self.left[0]),))


class Server:
    """What is told to the job's thread."""

    is_complete = False

    def __init__(self) -> None:
        self.told: list[SlotEvent] = []

    def add(self, event: SlotEvent) -> None:
        self.told.append(event)


def four_slots(executors: Registering, clock: ManualClock, server: Server) -> MissingSlots:
    stage = SimpleNamespace(width=4, index=0, vertices=())
    image = SimpleNamespace(topology=SimpleNamespace(stages=[stage]), job_name="job", job_id=OWN, shapes={})
    return MissingSlots(cast(Any, executors), cast(Any, image), cast(Any, server), clock, timeout_ms=1_000)


def test_a_job_waits_for_executors_that_are_still_registering() -> None:
    executors, clock = Registering(0, 2, 2, 4), ManualClock(0)
    assert four_slots(executors, clock, Server()).await_executors(Event())
    assert clock.waits == [REGISTERING_MS] * 3
    assert executors.asked == 4


def test_a_job_that_ends_meanwhile_waits_no_longer() -> None:
    clock, ending = ManualClock(0, until_ms=500), Event()
    assert not four_slots(Registering(2), clock, Server()).await_executors(ending)
    assert clock.now_ms() <= 600


def test_a_job_gives_up_after_the_timeout_and_says_what_is_there() -> None:
    clock, server = ManualClock(0), Server()
    missing_slots = four_slots(Registering(2), clock, server)
    clock.advance(1_000)
    missing_slots.waits()
    assert not missing_slots.await_executors(Event())
    (told,) = server.told
    assert isinstance(told, SlotLost)
    assert "slot.request.timeout" in told.reason
    assert "needs 4 cores" in told.reason
    assert "2 of 2 are free" in told.reason


@pytest.mark.parametrize(
    ("master", "conf", "registered", "most"),
    [
        ("local", {}, 1, 1),
        ("local[3]", {"spark.default.parallelism": "8"}, 3, 3),
        ("local[*, 2]", {}, 16, 16),
        ("local-cluster[2, 3, 1024]", {}, 0, 6),
        ("local-cluster[2,3,1024]", {"spark.task.cpus": "2"}, 0, 2),
        ("spark://there:7077", {}, 2, None),
        ("spark://there:7077", {"spark.cores.max": "8"}, 2, 8),
        ("spark://there:7077", {"spark.cores.max": "8", "spark.executor.cores": "3"}, 0, 6),
        ("yarn", {}, 0, 2),
        ("k8s://there", {"spark.executor.instances": "4", "spark.executor.cores": "2"}, 0, 8),
        ("yarn", {"spark.executor.instances": "1"}, 5, 5),  # it has asked for more meanwhile
    ],
)
def test_what_an_application_gets_at_most_is_known_by_its_master(
    master: str, conf: dict[str, str], registered: int, most: int | None
) -> None:
    assert most_slots(master, conf, registered) == most
