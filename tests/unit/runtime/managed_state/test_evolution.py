"""Schema evolution: which types become which others, with what result, and what is said where they do not."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal
from typing import Any, NamedTuple, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row, RowKind
from flott.errors import TypeMismatchError
from flott.runtime.managed_state.files.column_codec import decode_column, encode_column
from flott.runtime.managed_state.schema.evolution import Convert, Incompatible, Same, evolve, evolve_key
from flott.runtime.managed_state.schema.type_schema import schema_of
from tests.unit.runtime.managed_state.typed_values import exact, nullable, typed


@dataclasses.dataclass
class Person:
    name: str
    age: int


@dataclasses.dataclass
class Home:
    owner: Person | None
    rooms: list[str] = dataclasses.field(default_factory=list)


class Shape(TypedDict):
    sides: int


class Named(NamedTuple):
    a: str
    b: int


def person(**fields: Any) -> TypeInformation:
    """The type of a dataclass with these fields."""
    return Types.of(dataclasses.make_dataclass("Person", fields.items()))


def convert(old: TypeInformation | None, new: TypeInformation | None, values: list[Any]) -> list[Any]:
    """Saved with one type, restored with the other."""
    schema = schema_of(old)
    restored = decode_column(schema, encode_column(schema, values))
    match evolve(schema, new):
        case Same():
            return restored
        case Convert(function=function):
            return function(restored)
        case verdict:
            raise AssertionError(verdict)


def refusal(old: TypeInformation | None, new: TypeInformation | None) -> str:
    verdict = evolve(schema_of(old), new)
    assert isinstance(verdict, Incompatible), verdict
    return str(verdict)


def in_row(field: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(["a", "n"], [Types.STRING(), field])


WIDER = [
    (Types.BYTE(), Types.SHORT(), 3, 3),
    (Types.SHORT(), Types.INT(), 3, 3),
    (Types.BYTE(), Types.LONG(), 3, 3),
    (Types.INT(), Types.LONG(), 3, 3),
    (Types.LONG(), Types.BIG_INT(), 3, 3),
    (Types.LONG(), Types.BIG_DEC(), 1 << 60, Decimal(1 << 60)),
    (Types.BIG_INT(), Types.BIG_DEC(), 1 << 90, Decimal(1 << 90)),
    (Types.INT(), Types.DOUBLE(), 3, 3.0),
    (Types.BYTE(), Types.FLOAT(), 3, 3.0),
    (Types.BIG_INT(), Types.DOUBLE(), 1 << 70, float(1 << 70)),
    (Types.FLOAT(), Types.DOUBLE(), 0.5, 0.5),
    (Types.CHAR(), Types.STRING(), "x", "x"),
]


@pytest.mark.parametrize(("old", "new", "before", "after"), WIDER)
def test_a_value_widens_alone_and_inside_others(
    old: TypeInformation, new: TypeInformation, before: Any, after: Any
) -> None:
    assert exact(convert(old, new, [before, None])) == exact([after, None])
    assert exact(convert(in_row(old), in_row(new), [Row(a="x", n=before)])) == exact([Row(a="x", n=after)])
    assert exact(convert(Types.LIST(old), Types.LIST(new), [[before, None]])) == exact([[after, None]])
    maps = Types.MAP(Types.STRING(), old), Types.MAP(Types.STRING(), new)
    assert exact(convert(*maps, [{"k": before}])) == exact([{"k": after}])
    assert exact(convert(Types.TUPLE([old]), Types.TUPLE([new]), [(before,)])) == exact([(after,)])
    assert exact(convert(Types.ROW([old]), Types.ROW([new]), [Row(f0=before)])) == exact([Row(f0=after)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (Types.LONG(), Types.INT(), "it was saved as long and is declared as int now: that would narrow it"),
        (Types.DOUBLE(), Types.LONG(), "that would narrow it"),
        (Types.STRING(), Types.INT(), "it was saved as string and is declared as int now: one does not become"),
        (Types.STRING(), Types.CHAR(), "that would narrow it"),
        (in_row(Types.LONG()), in_row(Types.STRING()), "its field n was saved as long and is declared as string"),
        (
            Types.LIST(in_row(Types.LONG())),
            Types.LIST(in_row(Types.BYTE())),
            r"its field \[\]\.n was saved as long and is declared as byte now",
        ),
        (
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.MAP(Types.LONG(), Types.LONG()),
            "its field key was saved as string",
        ),
        (Types.TUPLE([Types.LONG()]), Types.TUPLE([Types.LONG()] * 2), r"go by position, and there were 1, not 2"),
        (
            Types.TUPLE([Types.LONG(), Types.STRING()]),
            Types.TUPLE([Types.LONG(), Types.LONG()]),
            r"its field \[1\] was saved as string and is declared as long now",
        ),
        (
            person(name=str),
            person(name=str, age=int),
            "its field age was saved as absent and is declared as big-int now: a new field needs a default",
        ),
        (Types.of(Shape), Types.of(Person), "its field name was saved as absent"),
    ],
)
def test_what_cannot_be_converted_is_refused_naming_the_field_and_both_types(
    old: TypeInformation, new: TypeInformation, message: str
) -> None:
    assert re.search(message, refusal(old, new))


@pytest.mark.parametrize("large", [(1 << 53) + 1, 1 << 2000])
def test_a_whole_number_that_would_lose_digits_is_refused(large: int) -> None:
    with pytest.raises(TypeMismatchError, match="would lose digits as a float") as raised:
        convert(in_row(Types.BIG_INT()), in_row(Types.DOUBLE()), [Row(a="x", n=1), Row(a="y", n=large)])
    assert raised.value.index == 1


def test_fields_go_by_name() -> None:
    old = Types.ROW_NAMED(["a", "b", "c"], [Types.LONG(), Types.STRING(), Types.LONG()])
    new = Types.ROW_NAMED(["c", "new", "a"], [Types.LONG(), Types.STRING(), Types.LONG()])
    row = Row(a=1, b="gone", c=3)
    row.set_row_kind(RowKind.DELETE)

    (converted,) = convert(old, new, [row])

    assert converted == Row.of_kind(RowKind.DELETE, c=3, new=None, a=1)
    assert converted._fields == ("c", "new", "a")


def test_a_new_field_of_a_dataclass_takes_its_default() -> None:
    made: list[list[str]] = []

    def tags() -> list[str]:
        made.append([])
        return made[-1]

    new = dataclasses.make_dataclass(
        "Renamed",
        [
            ("age", int),
            ("name", str),
            ("nick", str | None),
            ("vip", bool, dataclasses.field(default=False)),
            ("tags", list, dataclasses.field(default_factory=tags)),
        ],
        frozen=True,
        slots=True,
    )
    first, second = convert(Types.of(Person), Types.of(new), [Person("a", 1), Person("b", 2)])
    assert (first, second) == (new(1, "a", None, False, []), new(2, "b", None, False, []))
    assert first.tags is not second.tags


def test_records_inside_records_evolve_too() -> None:
    inner = dataclasses.make_dataclass("Person", [("name", str), ("email", str, dataclasses.field(default="?"))])
    outer = dataclasses.make_dataclass("Home", [("rooms", list[str]), ("owner", inner | None)])

    assert convert(Types.of(Home), Types.of(outer), [Home(Person("a", 1), ["x"]), Home(None), None]) == [
        outer(["x"], inner("a")),
        outer([], None),
        None,
    ]


def test_one_kind_of_record_becomes_another() -> None:
    row = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.BIG_INT()])
    assert convert(row, Types.of(Person), [Row(name="a", age=1)]) == [Person("a", 1)]
    assert convert(Types.of(Person), row, [Person("a", 1)]) == [Row(name="a", age=1)]

    class Both(TypedDict):
        a: str
        b: int
        c: NotRequired[str]

    assert convert(Types.of(Named), Types.of(Both), [Named("x", 1)]) == [{"a": "x", "b": 1}]
    assert convert(Types.of(Both), Types.of(Named), [{"b": 1, "a": "x", "c": "gone"}]) == [Named("x", 1)]


def test_a_key_that_was_optional_cannot_become_required() -> None:
    class Loose(TypedDict):
        a: str
        b: NotRequired[int]

    class Strict(TypedDict):
        a: str
        b: int

    class Nullable(TypedDict):
        a: str
        b: int | None

    assert convert(Types.of(Strict), Types.of(Loose), [{"a": "x", "b": 1}]) == [{"a": "x", "b": 1}]
    assert convert(Types.of(Loose), Types.of(Nullable), [{"a": "x"}]) == [{"a": "x", "b": None}]
    assert "its field b was saved as absent in some records" in refusal(Types.of(Loose), Types.of(Strict))


def test_what_was_pickled_becomes_what_is_declared_if_it_is_that() -> None:
    assert exact(convert(None, Types.DOUBLE(), [1, 2.5])) == exact([1.0, 2.5])
    with pytest.raises(TypeMismatchError, match="found 'x' of type str, declared Long"):
        convert(None, Types.LONG(), [1, "x"])
    inside = Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]), Types.TUPLE([Types.LONG()])
    assert convert(*inside, [(1,)]) == [(1,)]
    with pytest.raises(TypeMismatchError, match=r"at \[0\] found 'x'"):
        convert(*inside, [("x",)])


def test_what_was_declared_may_be_pickled_again() -> None:
    home = Home(Person("a", 1), ["x"])
    assert convert(Types.of(Home), None, [home, None]) == [home, None]
    assert convert(Types.LONG(), None, [1]) == [1]


def test_without_a_type_records_become_their_class_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(Types.LIST(Types.of(Person)))
    written = encode_column(schema, [[Person("a", 1)]])
    newer = dataclasses.make_dataclass("Person", [("name", str), ("vip", bool, False)])
    monkeypatch.setitem(globals(), "Person", newer)

    verdict = evolve(schema, None)

    assert isinstance(verdict, Convert)
    assert verdict.function(decode_column(schema, written)) == [[newer("a", False)]]

    monkeypatch.delitem(globals(), "Person")
    verdict = evolve(schema, None)
    assert isinstance(verdict, Incompatible)
    assert "test_evolution:Person is not to be found any more" in str(verdict)


def test_a_class_that_only_this_process_has_is_made_again_without_writing_anything() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    schema = schema_of(Types.of(Local))
    restored = decode_column(schema, encode_column(schema, [Local(1)]))
    assert restored == [Row(x=1)]
    verdict = evolve(schema, Types.of(Local))
    assert isinstance(verdict, Convert)
    assert not verdict.rewrites
    assert verdict.function(restored) == [Local(1)]


@settings(max_examples=150)
@given(st.data())
def test_a_type_that_did_not_change_changes_nothing(data: st.DataObject) -> None:
    declared, strategy = data.draw(typed)
    values = data.draw(st.lists(nullable(strategy), max_size=5))
    schema = schema_of(declared)
    match evolve(schema, declared):
        case Convert(function, rewrites):  # a class whose fields are not all there is to it
            assert not rewrites
            assert exact(function(values)) == exact(values)
        case verdict:
            assert verdict == Same()


@settings(max_examples=150)
@given(st.data())
def test_whatever_is_not_refused_conforms_afterwards(data: st.DataObject) -> None:
    (old, strategy), (new, _) = data.draw(typed), data.draw(typed)
    values = data.draw(st.lists(nullable(strategy), max_size=5))
    match evolve(schema_of(old), new):
        case Convert(function):
            try:
                converted = function(values)
            except TypeMismatchError:
                return  # it was pickled
            assert exact(new.conform(converted)) == exact(converted)
        case Same():
            assert exact(new.conform(values)) == exact(values)


def test_a_key_may_widen_and_nothing_else() -> None:
    assert evolve_key(schema_of(Types.INT()), Types.LONG()) == Same()
    assert evolve_key(None, Types.LONG()) == Same()
    assert evolve_key(schema_of(Types.of(Person)), Types.of(Person)) == Same()
    verdict = evolve_key(schema_of(Types.of(Person)), person(name=str))
    assert isinstance(verdict, Incompatible)
    assert "the class and the fields of a key must stay as they are" in str(verdict)
    assert isinstance(evolve_key(schema_of(Types.STRING()), Types.LONG()), Incompatible)
