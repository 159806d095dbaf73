"""The decision which executor runs which task: tasks stay, shares are fair, and only what must moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.epoch.placement import (
    ExecutorSlots,
    Placement,
    SlotPreference,
    TaskHomes,
    TaskPosition,
    decode_homes,
    encode_homes,
    place,
    place_slots,
)

NOTHING: TaskHomes = {}
NEW = Placement()

widths = st.lists(st.integers(1, 12), min_size=1, max_size=4)
turns = st.integers(0, 100)


@st.composite
def executors(draw: st.DrawFn, least: int = 1) -> list[ExecutorSlots]:
    slots = draw(st.lists(st.integers(1, 5), min_size=least, max_size=6))
    return [ExecutorSlots(str(number), f"host-{number % 3}", count) for number, count in enumerate(slots)]


def alike(count: int, slots: int = 1) -> list[ExecutorSlots]:
    return [ExecutorSlots(str(number), "host", slots) for number in range(count)]


def moved(before: Placement, after: Placement) -> set[TaskPosition]:
    return {task for task, home in after.homes.items() if before.homes.get(task, home) != home}


def assert_fair(placement: Placement, sizes: Sequence[int], present: Sequence[ExecutorSlots]) -> None:
    slots = {one.id: one.slots for one in present}
    for stage, width in enumerate(sizes):
        homes = placement.of_stage(stage)
        assert len(homes) == width
        for executor, count in Counter(homes).items():
            # less than one task more than its share
            assert count * sum(slots.values()) < width * slots[executor] + sum(slots.values())


@given(widths, executors(), turns)
def test_every_task_has_a_home_and_no_executor_more_than_its_share(
    sizes: list[int], present: list[ExecutorSlots], turn: int
) -> None:
    placement = place(sizes, present, NEW, NOTHING, turn)
    assert_fair(placement, sizes, present)
    assert sorted(placement.homes) == [(stage, n) for stage, width in enumerate(sizes) for n in range(width)]


@given(widths, executors(), turns)
def test_nothing_moves_while_the_executors_stay_and_tasks_run_at_home(
    sizes: list[int], present: list[ExecutorSlots], turn: int
) -> None:
    placement = place(sizes, present, NEW, NOTHING, turn)
    assert place(sizes, present[::-1], placement, placement.homes, turn) == placement
    assert place(sizes, present, placement, NOTHING, turn + 1) == placement, "the turn is for new tasks only"


@given(widths, executors(least=2), turns, st.data())
def test_when_an_executor_is_lost_its_tasks_move_and_all_others_stay(
    sizes: list[int], present: list[ExecutorSlots], turn: int, data: st.DataObject
) -> None:
    before = place(sizes, present, NEW, NOTHING, turn)
    lost = data.draw(st.sampled_from(present))
    left = [one for one in present if one is not lost]
    after = place(sizes, left, before, before.homes, turn)
    assert moved(before, after) == before.on_executor(lost.id)
    assert_fair(after, sizes, left)


@given(widths, executors(), turns, st.integers(1, 5))
def test_when_an_executor_is_added_only_what_exceeds_a_share_moves_and_only_to_it_or_below_the_share(
    sizes: list[int], present: list[ExecutorSlots], turn: int, slots: int
) -> None:
    before = place(sizes, present, NEW, NOTHING, turn)
    more = [*present, ExecutorSlots("new", "host-9", slots)]
    after = place(sizes, more, before, before.homes, turn)
    assert_fair(after, sizes, more)
    total = sum(one.slots for one in more)
    for stage, width in enumerate(sizes):
        had = Counter(before.of_stage(stage))
        excess = sum(max(0, had[one.id] - -(-width * one.slots // total)) for one in present)
        assert len([task for task in moved(before, after) if task[0] == stage]) == excess


@given(widths, executors(least=2), turns, st.data())
def test_an_executor_that_replaces_a_lost_one_gets_the_tasks_that_had_moved_and_no_other(
    sizes: list[int], present: list[ExecutorSlots], turn: int, data: st.DataObject
) -> None:
    first = place(sizes, present, NEW, NOTHING, turn)
    lost = data.draw(st.sampled_from(present))
    left = [one for one in present if one is not lost]
    second = place(sizes, left, first, first.homes, turn)
    third = place(sizes, [*left, ExecutorSlots("new", "host-9", lost.slots)], second, second.homes, turn)
    assert moved(second, third) <= first.on_executor(lost.id)


@given(widths, executors(), turns, st.data())
def test_wherever_tasks_ran_the_placement_is_fair_and_tasks_that_ran_at_home_stay(
    sizes: list[int], present: list[ExecutorSlots], turn: int, data: st.DataObject
) -> None:
    before = place(sizes, present, NEW, NOTHING, turn)
    somewhere = st.sampled_from([*(one.id for one in present), "gone"])
    displaced: Mapping[TaskPosition, str] = data.draw(st.dictionaries(st.sampled_from(sorted(before.homes)), somewhere))
    ran_on = {**before.homes, **displaced}
    after = place(sizes, present, before, ran_on, turn)
    assert_fair(after, sizes, present)
    assert moved(before, after) <= {task for task, place in ran_on.items() if place != before.homes[task]}


def test_a_task_that_spark_ran_elsewhere_stays_there_if_there_is_room() -> None:
    before = place([2], alike(4), NEW, NOTHING)
    assert before.of_stage(0) == ["0", "1"]
    assert place([2], alike(4), before, {(0, 0): "3", (0, 1): "1"}).of_stage(0) == ["3", "1"]
    # Executor 1 has a task already, so the displaced one goes home.
    assert place([2], alike(4), before, {(0, 0): "1", (0, 1): "1"}).of_stage(0) == ["0", "1"]


def test_stages_with_one_task_and_jobs_with_one_task_are_spread() -> None:
    assert [place([1, 1, 1], alike(3), NEW, NOTHING).of_stage(stage) for stage in range(3)] == [["0"], ["1"], ["2"]]
    assert [place([1], alike(3), NEW, NOTHING, turn).of_stage(0) for turn in range(3)] == [["0"], ["1"], ["2"]]


def test_an_executor_with_more_slots_gets_more_tasks() -> None:
    present = [ExecutorSlots("big", "a", 3), ExecutorSlots("small", "b", 1)]
    assert Counter(place([8], present, NEW, NOTHING).of_stage(0)) == {"big": 6, "small": 2}


def test_without_executors_there_is_no_placement() -> None:
    assert place([4], [], place([4], alike(2), NEW, NOTHING), NOTHING) == Placement()
    assert place([4], [ExecutorSlots("driver", "a", 0)], NEW, NOTHING) == Placement()


@given(widths, executors(), turns)
def test_a_worker_finds_the_tasks_of_its_executor_in_the_text(
    sizes: list[int], present: list[ExecutorSlots], turn: int
) -> None:
    placement = place(sizes, present, NEW, NOTHING, turn)
    text = encode_homes(placement, present)
    for one in present:
        own = decode_homes(text, one.id)
        assert own is not None
        assert own.of_executor == placement.on_executor(one.id)
        neighbours = [other for other in present if other.host == one.host]
        assert own.of_host == frozenset().union(*(placement.on_executor(other.id) for other in neighbours))
    assert decode_homes(text, "another") is None, "a worker that is not known keeps what it has"
    assert decode_homes("", present[0].id) is None


# --- slots of pipelined jobs -----------------------------------------------------------------------------------------

HOSTS = {str(number): f"host-{number % 2}" for number in range(6)}


def there(*ids: int, slots: int = 1) -> list[ExecutorSlots]:
    return [ExecutorSlots(str(number), HOSTS[str(number)], slots) for number in ids]


def on(executor: int) -> SlotPreference:
    return SlotPreference(HOSTS[str(executor)], str(executor))


def test_slots_return_to_their_executors_and_those_of_a_lost_one_to_its_host() -> None:
    tasks_at = {(stage, slot): str(slot) for stage in (0, 1) for slot in range(3)}
    assert place_slots(3, there(0, 1, 2), tasks_at, HOSTS) == (on(0), on(1), on(2))
    # The slot of the lost executor takes the place of none of the others.
    assert place_slots(3, there(0, 2, 4), tasks_at, HOSTS) == (on(0), SlotPreference("host-1"), on(2))


def test_slots_without_a_past_run_wherever_there_is_room() -> None:
    assert place_slots(2, there(0, 1), {}, HOSTS) == (None, None)
    assert place_slots(2, there(0, 1), {(0, 1): "unknown"}, HOSTS) == (None, None)


def test_a_slot_follows_most_of_its_tasks_and_if_none_are_more_those_of_later_stages() -> None:
    tasks_at = {(0, 0): "1", (1, 0): "0", (2, 0): "1", (0, 1): "1", (1, 1): "2"}
    assert place_slots(2, there(0, 1, 2), tasks_at, HOSTS) == (on(1), on(2))


@given(
    st.integers(1, 8),
    st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 9)), st.sampled_from("012345")),
    st.lists(st.sampled_from(range(6)), unique=True),
    st.integers(1, 3),
)
def test_no_executor_is_preferred_by_more_slots_than_it_can_run_at_the_same_time(
    slots: int, tasks_at: TaskHomes, present: list[int], cores: int
) -> None:
    found = place_slots(slots, there(*present, slots=cores), tasks_at, HOSTS)
    assert len(found) == slots
    preferred = Counter(one.executor for one in found if one is not None and one.executor is not None)
    assert all(count <= cores and int(executor) in present for executor, count in preferred.items())
    for slot, one in enumerate(found):
        assert one is None or one.host in {HOSTS[at] for (_, n), at in tasks_at.items() if n == slot}
