"""Sections: the changes of every kind of table come back exactly, typed and untyped."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.sections import decode_delta, encode_delta
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import KINDS
from flott.runtime.managed_state.kinds.values import ValueDelta
from flott.runtime.managed_state.operator.operator_shares import Mode
from flott.runtime.managed_state.schema.type_schema import schema_of
from tests.unit.runtime.managed_state.typed_values import Point, exact, nullable, typed

windows = st.tuples(st.integers(), st.integers())
namespaces = st.one_of(
    st.lists(st.none() | st.integers(), max_size=4),
    st.lists(windows, max_size=4),
    st.lists(st.none() | windows | windows.map(lambda window: (window,)) | st.text(), max_size=4),
    st.lists(windows.map(lambda window: (window,)), max_size=4),
)
positions = st.integers(0, 1 << 40)


@st.composite
def deltas(draw: st.DrawFn) -> tuple[TableHeader, Any]:
    """A header and changes of its kind, with typed and untyped parts."""
    kind = draw(
        st.sampled_from(
            ["value", "list", "map", "timers", "panes", "list-panes", "timelines", *(mode.value for mode in Mode)]
        )
    )
    (key_type, keys), (value_type, values), (map_key_type, map_keys) = draw(typed), draw(typed), draw(typed)
    values = nullable(values)
    if has_ttl := kind in ("value", "list", "map") and draw(st.booleans()):
        values = st.tuples(values, st.integers())
    namespaced = kind in ("value", "list", "map") and draw(st.booleans())
    entries = st.tuples(keys, draw(st.sampled_from([windows, st.none(), st.text()]))) if namespaced else keys
    many = {"max_size": 4}
    items = st.lists(st.tuples(map_keys, values), **many)
    some_keys = st.lists(keys, **many)
    match kind:
        case "value":
            put = draw(st.lists(st.tuples(entries, values), **many))
            delta: Any = [[e for e, _ in put], [v for _, v in put], draw(st.lists(entries, **many))]
        case "list":
            lists = st.lists(values, **many)
            delta = [
                draw(st.lists(st.tuples(entries, lists), **many)),
                draw(st.lists(st.tuples(entries, positions, lists), **many)),
                draw(st.lists(entries, **many)),
            ]
        case "map":
            change = st.tuples(entries, st.booleans(), st.lists(map_keys, **many), items, items)
            delta = draw(st.lists(change, **many))
        case "timers":
            delta = [
                [(draw(st.integers()), draw(keys), namespace) for namespace in draw(namespaces)] for _ in range(2)
            ]
        case "panes" | "list-panes":
            if kind == "list-panes":
                values = st.tuples(positions, st.lists(values, **many))
            delta = [
                [
                    (pane, held, [draw(values) for _ in held])
                    for pane in draw(namespaces)
                    for held in [draw(some_keys)]
                ],
                [(pane, draw(some_keys)) for pane in draw(namespaces)],
            ]
        case "timelines":
            additions = [
                (draw(positions), held, [draw(st.integers()) for _ in held], [draw(values) for _ in held])
                for held in draw(st.lists(some_keys, **many))
            ]
            delta = [draw(st.integers(0, 127)), additions, draw(st.integers()), draw(some_keys)]
        case Mode.BROADCAST.value:
            delta = draw(items)
        case _:
            delta = draw(st.lists(values, **many))
    schemas = [
        schema_of(declared) if draw(st.booleans()) else None for declared in (key_type, value_type, map_key_type)
    ]
    typed_delta = KINDS[kind].from_plain(delta) if kind in KINDS else delta
    return TableHeader("s", kind, namespaced, *schemas, {"ms": 1} if has_ttl else None), typed_delta


@settings(max_examples=500)
@given(deltas())
def test_changes_come_back_exactly(case: tuple[TableHeader, Any]) -> None:
    header, delta = case
    header = TableHeader.from_json(header.to_json())  # as a reader has it
    assert exact(decode_delta(header, encode_delta(header, delta))) == exact(delta)


def test_changes_without_declared_types_are_one_pickle() -> None:
    header = TableHeader("s", "value")
    delta = ValueDelta(["k"], [object], [])
    assert encode_delta(header, delta) == b"\0" + pickle.dumps([["k"], [object], []], protocol=5)


def test_typed_changes_are_smaller_than_their_pickle() -> None:
    header = TableHeader("s", "value", False, schema_of(Types.LONG()), schema_of(Types.of(Point)))
    delta = ValueDelta(list(range(1000)), [Point(number, 1.0) for number in range(1000)], [])
    assert len(encode_delta(header, delta)) < 0.5 * len(pickle.dumps(delta, protocol=5))


def test_a_plain_reader_needs_no_class_of_the_program() -> None:
    header = TableHeader("s", "map", True, schema_of(Types.STRING()), schema_of(Types.of(Point)), None)
    delta = [(("key", (0, 10)), False, [], [], [("item", Point(1, 2.0))])]
    assert decode_delta(header, encode_delta(header, delta), plain=True) == [
        (("key", (0, 10)), False, [], [], [("item", Row(x=1, y=2.0))])
    ]


def test_a_section_of_a_later_version_is_refused() -> None:
    header = TableHeader("sums", "value", False, schema_of(Types.LONG()))
    with pytest.raises(CorruptStateError, match=r"state 'sums' are written in a way \(b'\\x07', value\)"):
        decode_delta(header, b"\7")
