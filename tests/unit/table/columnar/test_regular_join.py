"""Regular joins against nested loops: all kinds, changelogs, crashes, rescaling and any cut into epochs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from flott.table._expressions.expression import Call, InputRef
from flott.table._functions.registry import function_named
from flott.table._plan.logical import EquiKeys, JoinKind, Schema
from flott.table._plan.operations import RegularJoin
from flott.table._types.logical import BigIntType, BooleanType, IntType, VarCharType
from tests.unit.table.columnar.cluster import Change, Cluster, folded

LEFT = Schema(("k", "id", "v"), (IntType(), BigIntType(), VarCharType(9)))
RIGHT = Schema(("k", "id"), (IntType(), BigIntType()))
LESS = Call(
    function="<",
    arguments=(InputRef(index=1, type=BigIntType()), InputRef(index=4, type=BigIntType())),
    type=BooleanType(),
)
#: Conditions need the library of functions.
conditions = st.booleans() if function_named("<") else st.just(False)
left_rows = st.tuples(st.sampled_from([None, 1, 2, 3]), st.integers(0, 4), st.sampled_from(["a", "b", None]))
right_rows = st.tuples(st.sampled_from([None, 1, 2, 3]), st.integers(0, 4))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("left"), left_rows, st.booleans()),
        st.tuples(st.just("right"), right_rows, st.booleans()),
        st.tuples(st.just("epoch"), st.none(), st.none()),
        st.tuples(st.just("crash"), st.integers(1, 3), st.none()),
    ),
    max_size=60,
)


def operation(kind: JoinKind, **changed: Any) -> RegularJoin:
    output = LEFT if kind in (JoinKind.SEMI, JoinKind.ANTI) else LEFT + RIGHT
    told: dict[str, Any] = {
        "output": output,
        "kind": kind,
        "left": LEFT,
        "right": RIGHT,
        "keys": EquiKeys((0,), (0,), (True,)),
        "condition": None,
        "retracts": (True, True),
    }
    return RegularJoin(**{**told, **changed})


def nested_loops(kind: JoinKind, left: Counter[Any], right: Counter[Any], condition: bool) -> Counter[Any]:
    def match(one: Any, other: Any) -> bool:
        return one[0] is not None and one[0] == other[0] and (not condition or one[1] < other[1])

    found: Counter[Any] = Counter()
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        for one, times in left.items():
            if any(match(one, other) for other in right) == (kind is JoinKind.SEMI):
                found[one] += times
        return +found
    for one, times in left.items():
        for other, others in right.items():
            if match(one, other):
                found[one + other] += times * others
        if kind.left_outer and not any(match(one, other) for other in right):
            found[(*one, None, None)] += times
    if kind.right_outer:
        for other, others in right.items():
            if not any(match(one, other) for one in left):
                found[(None, None, None, *other)] += others
    return +found


@pytest.mark.parametrize("kind", list(JoinKind))
@given(steps=steps, condition=conditions, unique=st.booleans(), append=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_join_of_changelogs_is_the_join_of_what_they_leave(
    kind: JoinKind, steps: list[Any], condition: bool, unique: bool, append: bool
) -> None:
    told = operation(
        kind,
        condition=LESS if condition else None,
        left_unique=(1,) if unique else None,
        right_unique=(1,) if unique else None,
        retracts=(False, False) if append else (True, True),
    )
    cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
    held: dict[str, Counter[Any]] = {"left": Counter(), "right": Counter()}
    waiting: dict[str, list[Change]] = {"left": [], "right": []}

    def flush() -> None:
        cluster.epoch(waiting["left"], waiting["right"])
        for changes in waiting.values():
            changes.clear()
        assert folded(cluster.out) == nested_loops(kind, +held["left"], +held["right"], condition)

    for what, row, add in steps:
        if what == "epoch":
            flush()
        elif what == "crash":
            flush()
            cluster.crash(row)
        elif add or append:
            if unique:  # a row of the same key and id is taken back first
                for former in [one for one in +held[what] if one[:2] == row[:2]]:
                    held[what][former] -= 1
                    waiting[what].append(("-U", former))
                if append and len(waiting[what]) and waiting[what][-1][0] == "-U":
                    held[what][waiting[what].pop()[1]] += 1
                    continue
            held[what][row] += 1
            waiting[what].append(("+I", row))
        elif held[what][row] > 0:
            held[what][row] -= 1
            waiting[what].append(("-D", row))
    flush()


def test_kinds_are_those_that_flink_sends() -> None:
    inner = Cluster(operation(JoinKind.INNER), [LEFT, RIGHT], [(0,), (0,)])
    inner.epoch([("+I", (1, 1, "a"))], [("+I", (1, 7))])
    sent = inner.epoch([("-U", (1, 1, "a")), ("+U", (1, 1, "b"))], [])
    assert sent == [("-U", (1, 1, "a", 1, 7)), ("+U", (1, 1, "b", 1, 7))]
    outer = Cluster(operation(JoinKind.LEFT), [LEFT, RIGHT], [(0,), (0,)])
    assert outer.epoch([("+I", (1, 1, "a"))], []) == [("+I", (1, 1, "a", None, None))]
    assert outer.epoch([], [("+I", (1, 7))]) == [("-D", (1, 1, "a", None, None)), ("+I", (1, 1, "a", 1, 7))]
    assert outer.epoch([], [("-U", (1, 7)), ("+U", (1, 8))]) == [
        ("-U", (1, 1, "a", 1, 7)),
        ("+I", (1, 1, "a", None, None)),
        ("-D", (1, 1, "a", None, None)),
        ("+I", (1, 1, "a", 1, 8)),
    ]


def test_an_upsert_takes_the_former_row_back() -> None:
    told = operation(JoinKind.LEFT, left_unique=(1,), right_unique=(0,))
    cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
    cluster.epoch([("+I", (1, 1, "a"))], [("+I", (1, 5))])
    cluster.epoch([], [("+U", (1, 6)), ("+U", (1, 7))])
    cluster.epoch([("+U", (1, 1, "b"))], [])
    assert folded(cluster.out) == Counter({(1, 1, "b", 1, 7): 1})
    cluster.epoch([], [("-D", (1, 7))])
    assert folded(cluster.out) == Counter({(1, 1, "b", None, None): 1})


def test_rows_without_keys_meet_all_others() -> None:
    told = operation(JoinKind.FULL, keys=EquiKeys((), (), ()))
    cluster = Cluster(told, [LEFT, RIGHT], [(), ()], parallelism=2)
    cluster.epoch([("+I", (1, 1, "a")), ("+I", (None, 2, "b"))], [])
    cluster.epoch([], [("+I", (3, 3)), ("+I", (4, 4))])
    cluster.crash(1)
    cluster.epoch([("-D", (1, 1, "a"))], [])
    assert folded(cluster.out) == Counter({(None, 2, "b", 3, 3): 1, (None, 2, "b", 4, 4): 1})


def test_rows_that_were_not_used_for_long_are_forgotten() -> None:
    cluster = Cluster(operation(JoinKind.INNER, ttl_ms=10), [LEFT, RIGHT], [(0,), (0,)])
    cluster.epoch([("+I", (1, 1, "a"))], [], now_ms=100)
    assert cluster.epoch([], [("+I", (1, 2))], now_ms=105) == [("+I", (1, 1, "a", 1, 2))]
    assert cluster.epoch([], [("+I", (1, 3))], now_ms=120) == []


def test_a_hot_key_is_joined_in_portions() -> None:
    cluster = Cluster(operation(JoinKind.SEMI, retracts=(False, False)), [LEFT, RIGHT], [(0,), (0,)])
    cluster.epoch([("+I", (1, number, "a")) for number in range(3000)], [])
    sent = cluster.epoch([], [("+I", (1, number)) for number in range(300)])
    assert len(sent) == 3000


def test_each_side_is_kept_as_long_as_it_is_told() -> None:
    told = operation(JoinKind.INNER, ttl_ms=50, side_ttl_ms=(1_000, None))
    cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
    cluster.epoch([("+I", (1, 10, "a"))], [("+I", (2, 20))], now_ms=1)
    assert cluster.epoch([("+I", (2, 11, "b"))], [("+I", (1, 21))], now_ms=100) == [("+I", (1, 10, "a", 1, 21))]
