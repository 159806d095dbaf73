"""Time to live, the pure part: what a program asked for, and what files may leave out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.time import Time
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.kinds.lists import ListDelta
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.timers import TimerDelta
from flott.runtime.managed_state.kinds.values import ValueDelta
from flott.runtime.managed_state.ttl.time_to_live import (
    UNSTAMPED,
    Horizon,
    TimeToLive,
    drop_expired,
    former_names,
    newest,
    state_name,
    table_name,
)
from tests.unit.runtime.managed_state.test_expiring_state import Process

ONE_SECOND = TimeToLive(1000, in_compaction=True)


def builder() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.seconds(1))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (builder(), TimeToLive(1000, sweep_entries=5, in_compaction=True)),
        (builder().disable_cleanup_in_background(), TimeToLive(1000)),
        (builder().disable_cleanup_in_background().cleanup_full_snapshot(), TimeToLive(1000, in_snapshots=True)),
        (
            builder().disable_cleanup_in_background().cleanup_in_rocksdb_compact_filter(7),
            TimeToLive(1000, in_compaction=True),
        ),
        (
            builder().disable_cleanup_in_background().cleanup_incrementally(9, True),
            TimeToLive(1000, sweep_entries=9, sweep_every_record=True),
        ),
        (
            builder().use_event_time().update_ttl_on_read_and_write().return_expired_if_not_cleaned_up(),
            TimeToLive(
                1000, in_event_time=True, on_read=True, returns_expired=True, sweep_entries=5, in_compaction=True
            ),
        ),
        (builder().set_update_type(StateTtlConfig.UpdateType.Disabled), None),
    ],
)
def test_options_are_read_from_the_configuration(
    config: StateTtlConfig.Builder, expected: TimeToLive | None
) -> None:
    assert TimeToLive.of(config.build()) == expected


def test_no_configuration_means_that_state_lives_for_ever() -> None:
    assert TimeToLive.of(None) is None


@given(
    st.builds(
        TimeToLive,
        ms=st.integers(1),
        in_event_time=st.booleans(),
        on_read=st.booleans(),
        returns_expired=st.booleans(),
        sweep_entries=st.integers(0, 9),
        sweep_every_record=st.booleans(),
        in_snapshots=st.booleans(),
        in_compaction=st.booleans(),
        since_ms=st.integers(),
    )
)
def test_json_gives_the_same_again(ttl: TimeToLive) -> None:
    again = TimeToLive.from_json({**ttl.to_json(), "of-a-later-version": 1})
    assert (again, again.since_ms) == (ttl, ttl.since_ms)


def test_the_json_is_what_the_documentation_says() -> None:
    ttl = TimeToLive.of(builder().cleanup_full_snapshot().build())
    assert ttl is not None
    assert ttl.to_json() == {
        "since": 0,
        "ms": 1000,
        "time": "processing",
        "update": "OnCreateAndWrite",
        "visibility": "NeverReturnExpired",
        "cleanup": {"entries": 5, "every-record": False, "snapshots": True, "compaction": True},
    }


def test_a_state_has_another_table_for_every_form_of_its_values() -> None:
    event = TimeToLive(1, in_event_time=True)
    names = [table_name("count", ttl) for ttl in (None, ONE_SECOND, event)]
    assert names == ["count", "count@ttl", "count@event-ttl"]
    assert set(map(state_name, names)) == {"count"}
    for ttl, name in zip((None, ONE_SECOND, event), names, strict=True):
        assert sorted([*former_names("count", ttl), name]) == sorted(names)


def test_what_was_said_last_counts() -> None:
    old, new = TimeToLive(1, since_ms=5).to_json(), TimeToLive(2, since_ms=6).to_json()
    assert newest([old, new]) == newest([new, None, old]) == new
    assert newest([None]) is None


# ---- what files leave out --------------------------------------------------------------------------------------------

#: (kind, a base of it, the same without what is stamped at 0)
BASES: list[tuple[str, Any, Any]] = [
    ("value", ValueDelta(["a", "b"], [("x", 0), ("y", 1)], ["c"]), ValueDelta(["b"], [("y", 1)], ["c"])),
    (
        "map",
        [("a", True, [], [], [(1, ("x", 0)), (2, ("y", 1))]), ("b", True, [], [(1, ("x", 0))], [])],
        [("a", True, [], [], [(2, ("y", 1))])],
    ),
]
LISTS = ListDelta([("a", [("x", 0), ("y", 1)]), ("b", [("x", 0)])], [], [])


@pytest.mark.parametrize(("kind", "base", "left"), BASES)
@pytest.mark.parametrize("in_event_time", [False, True])
def test_a_base_leaves_out_what_is_gone(kind: str, base: Any, left: Any, in_event_time: bool) -> None:
    ttl = TimeToLive(1000, in_event_time=in_event_time, in_compaction=True).to_json()
    before, after = ((10**9, 999), (0, 1000)) if in_event_time else ((999, 10**9), (1000, MIN_WATERMARK))
    assert drop_expired(kind, base, ttl, Horizon(*before)) == base
    assert drop_expired(kind, base, ttl, Horizon(*after)) == left


@pytest.mark.parametrize(("kind", "base", "left"), BASES)
def test_what_may_still_be_returned_is_not_left_out(kind: str, base: Any, left: Any) -> None:
    ttl = TimeToLive(1000, returns_expired=True, in_compaction=True).to_json()
    assert drop_expired(kind, base, ttl, Horizon(1999, 0)) == base
    assert drop_expired(kind, base, ttl, Horizon(2000, 0)) == left


@pytest.mark.parametrize(("kind", "base", "left"), BASES)
def test_what_has_no_age_is_never_left_out(kind: str, base: Any, left: Any) -> None:
    ttl = TimeToLive(1000, in_event_time=True, in_compaction=True).to_json()
    ageless = ValueDelta(["a"], [("x", UNSTAMPED)], [])
    assert drop_expired("value", ageless, ttl, Horizon(0, 10**15)) == ageless
    assert drop_expired(kind, base, ttl, Horizon(0, MIN_WATERMARK)) == base


@pytest.mark.parametrize(
    ("in_compaction", "in_snapshots", "in_compactions", "in_savepoints"),
    [(False, False, False, False), (True, False, True, True), (False, True, False, True), (True, True, True, True)],
)
@pytest.mark.parametrize(("kind", "base", "left"), BASES)
def test_files_are_cleaned_up_where_the_program_wants_it(
    kind: str, base: Any, left: Any, in_compaction: bool, in_snapshots: bool, in_compactions: bool, in_savepoints: bool
) -> None:
    ttl = TimeToLive(1000, in_compaction=in_compaction, in_snapshots=in_snapshots).to_json()
    assert drop_expired(kind, base, ttl, Horizon(1000, 0)) == (left if in_compactions else base)
    assert drop_expired(kind, base, ttl, Horizon(1000, 0, detached=True)) == (left if in_savepoints else base)


def test_elements_are_left_out_of_lists_in_savepoints_only() -> None:
    ttl = ONE_SECOND.to_json()
    assert drop_expired("list", LISTS, ttl, Horizon(1000, 0)) == LISTS
    assert drop_expired("list", LISTS, ttl, Horizon(1000, 0, detached=True)) == ([("a", [("y", 1)])], [], [])


def test_timers_have_no_time_to_live() -> None:
    timers = TimerDelta([(1, "a", None)], [(2, "a", None)])
    assert drop_expired("timers", timers, ONE_SECOND.to_json(), Horizon(10**9, 0, detached=True)) == timers


@pytest.mark.parametrize(
    ("kind", "content", "plain"),
    [("value", (1, 5), 1), ("list", [(1, 5), (2, 6)], [1, 2]), ("map", {"a": (1, 5)}, {"a": 1}), ("value", None, None)],
)
def test_stamps_can_be_taken_away(kind: str, content: Any, plain: Any) -> None:
    assert kind_of(kind).content(content) == plain


# ---- in real files ---------------------------------------------------------------------------------------------------


def compacted(process: Process, now: int, *, detached: bool = False) -> Process:
    """A process that takes over the state after its files were compacted."""
    horizon = Horizon(now, MIN_WATERMARK, detached)
    order = CompactionOrder(process.sequence, (0, 16), f"compacted-{len(process.storage.files)}", True, horizon)
    return Process(process.storage, (compact(order, process.storage),))  # type: ignore[arg-type]


def test_compaction_leaves_out_what_nobody_can_see_any_more() -> None:
    process = Process()
    process.at(0)
    process.get(ValueStateDescriptor("s"), builder()).update(1)
    process.get(MapStateDescriptor("m"), builder()).put("a", 1)
    process.get(ListStateDescriptor("l"), builder()).add(1)
    process.save()
    assert compacted(process, 999).state.sizes() == {"s@ttl": 1, "m@ttl": 1, "l@ttl": 1}
    assert compacted(process, 1000).state.sizes() == {"s@ttl": 0, "m@ttl": 0, "l@ttl": 1}
    assert compacted(process, 1000, detached=True).state.sizes() == {"s@ttl": 0, "m@ttl": 0, "l@ttl": 0}


def test_a_copy_of_a_list_goes_on_after_its_files_were_compacted() -> None:
    process = Process()
    process.at(0)
    state = process.get(ListStateDescriptor("l"), builder().disable_cleanup_in_background().cleanup_full_snapshot())
    state.add(1)
    process.save()
    process.sequence = compacted(process, 5000).sequence  # beside the process, which still has the element
    process.at(5000)
    state.add(2)
    process.save()
    other = process.successor()
    other.at(5000)
    again = other.get(ListStateDescriptor("l"), builder().disable_cleanup_in_background().cleanup_full_snapshot())
    assert list(again.get()) == list(state.get()) == [2]
