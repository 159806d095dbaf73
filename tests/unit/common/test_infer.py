"""Type hints become types, and the types take exactly the values that the hints promise."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import pickle
import typing
from collections.abc import Callable, Iterable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation, Types, VariadicTupleTypeInfo
from flott.common.typeinfo._infer import type_of, type_variables
from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

T = TypeVar("T")
U = TypeVar("U")
PICKLED = Types.PICKLED_BYTE_ARRAY()
UserId = NewType("UserId", str)


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    start: Point
    tags: list[str]
    end: Point | None = None
    seen: int = dataclasses.field(default=0, init=False)
    kind: typing.ClassVar[str] = "segment"


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    others: list[T]


class BoxOfBytes(Box[bytes]):
    pass


@dataclasses.dataclass
class Crate(Generic[T]):
    box: Box[list[T]]


@dataclasses.dataclass
class Node:
    value: int
    next: Node | None
    children: list[Node]


@dataclasses.dataclass
class HalfKnown:
    known: int
    unknown: Unknown


class City(NamedTuple):
    name: str
    inhabitants: int = 0


class Trip(TypedDict):
    start: City
    fare: NotRequired[decimal.Decimal]


class LooseTrip(Trip, total=False):
    comment: str
    driver: Required[str]


Pair = collections.namedtuple("Pair", "first second")

HINTS: list[tuple[Any, TypeInformation]] = [
    (str, Types.STRING()),
    (bool, Types.BOOLEAN()),
    (int, Types.BIG_INT()),
    (float, Types.DOUBLE()),
    (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (decimal.Decimal, Types.BIG_DEC()),
    (datetime.date, Types.SQL_DATE()),
    (datetime.time, Types.SQL_TIME()),
    (datetime.datetime, Types.SQL_TIMESTAMP()),
    (Instant, Types.INSTANT()),
    (Types.LONG(), Types.LONG()),
    (list[int], Types.LIST(Types.BIG_INT())),
    (list, Types.LIST(PICKLED)),
    (typing.List[str], Types.LIST(Types.STRING())),  # noqa: UP006 - older programs write it so
    (dict[str, list[float]], Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE()))),
    (dict, Types.MAP(PICKLED, PICKLED)),
    (tuple[str, int], Types.TUPLE([Types.STRING(), Types.BIG_INT()])),
    (tuple[()], Types.TUPLE([])),
    (tuple, VariadicTupleTypeInfo(PICKLED)),
    (tuple[float, ...], VariadicTupleTypeInfo(Types.DOUBLE())),
    (tuple[int, *tuple[str, ...]], VariadicTupleTypeInfo(PICKLED)),
    (Optional[int], Types.BIG_INT()),  # noqa: UP045
    (str | None, Types.STRING()),
    (list[int | None] | None, Types.LIST(Types.BIG_INT())),
    (UserId, Types.STRING()),
    (Annotated[float, "metres"], Types.DOUBLE()),
    (Literal["red", "green"], Types.STRING()),
    (Literal[1, None], Types.BIG_INT()),
    (Literal["one", 1], PICKLED),
    (Any, PICKLED),
    (object, PICKLED),
    (int | str, PICKLED),
    (Union[int, str, None], PICKLED),  # noqa: UP007
    (None.__class__, PICKLED),
    (set[int], PICKLED),
    (frozenset, PICKLED),
    (bytearray, PICKLED),
    (Iterable[int], PICKLED),
    (Callable[[int], int], PICKLED),
    (collections.defaultdict[str, int], PICKLED),
    (datetime.timedelta, PICKLED),
    (Row, PICKLED),
    (T, PICKLED),
]


@pytest.mark.parametrize(("hint", "expected"), HINTS, ids=[str(hint) for hint, _ in HINTS])
def test_a_hint_stands_for_a_type(hint: Any, expected: TypeInformation) -> None:
    assert type_of(hint) == Types.of(hint) == expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Point, "DataclassTypeInfo<Point>(x: Double, y: Double)"),
        (
            Segment,
            "DataclassTypeInfo<Segment>(start: DataclassTypeInfo<Point>(x: Double, y: Double),"
            " tags: ListTypeInfo<String>, end: DataclassTypeInfo<Point>(x: Double, y: Double), seen: BigInteger)",
        ),
        (Box[int], "DataclassTypeInfo<Box>(content: BigInteger, others: ListTypeInfo<BigInteger>)"),
        (
            Box,
            "DataclassTypeInfo<Box>(content: PickledByteArrayTypeInfo,"
            " others: ListTypeInfo<PickledByteArrayTypeInfo>)",
        ),
        (
            BoxOfBytes,
            "DataclassTypeInfo<BoxOfBytes>(content: PrimitiveArrayTypeInfo<Byte>,"
            " others: ListTypeInfo<PrimitiveArrayTypeInfo<Byte>>)",
        ),
        (
            Crate[str],
            "DataclassTypeInfo<Crate>(box: DataclassTypeInfo<Box>(content: ListTypeInfo<String>,"
            " others: ListTypeInfo<ListTypeInfo<String>>))",
        ),
        (
            Node,
            "DataclassTypeInfo<Node>(value: BigInteger, next: PickledByteArrayTypeInfo,"
            " children: ListTypeInfo<PickledByteArrayTypeInfo>)",
        ),
        (HalfKnown, "DataclassTypeInfo<HalfKnown>(known: BigInteger, unknown: PickledByteArrayTypeInfo)"),
        (City, "NamedTupleTypeInfo<City>(name: String, inhabitants: BigInteger)"),
        (Pair, "NamedTupleTypeInfo<Pair>(first: PickledByteArrayTypeInfo, second: PickledByteArrayTypeInfo)"),
        (
            LooseTrip,
            "TypedDictTypeInfo<LooseTrip>(start: NamedTupleTypeInfo<City>(name: String, inhabitants: BigInteger),"
            " fare: BigDecimal, comment: String, driver: String)",
        ),
    ],
)
def test_a_class_with_fields_keeps_its_class_and_has_a_type_for_each(hint: Any, expected: str) -> None:
    assert repr(Types.of(hint)) == expected


def test_a_class_inside_a_function_is_read_as_far_as_its_names_are_known() -> None:
    @dataclasses.dataclass
    class Inner:
        number: int
        itself: list[Inner]
        lost: Lost  # type: ignore[name-defined]  # noqa: F821

    assert "number: BigInteger, itself: ListTypeInfo<PickledByteArrayTypeInfo>, lost: Pickled" in repr(Types.of(Inner))


@pytest.mark.parametrize("wrong", ["int", 3, len, [int], Types.STRING, type(Types.STRING()), None, list["Point"]])
def test_what_is_no_hint_is_refused(wrong: Any) -> None:
    with pytest.raises(ProgramError, match=r"one of flott\.common\.Types, or a type hint|write the class itself"):
        Types.of(wrong)


def test_type_variables_are_found_through_all_bases() -> None:
    class Middle(Box[list[T]], Generic[T, U]): ...

    class Last(Middle[int, str]): ...

    class LastButOne(Last): ...

    assert type_variables(LastButOne)[U] is str
    assert type_variables(LastButOne)[T] is Any  # two of the bases mean different things by it


def test_factories_take_hints_where_they_take_types() -> None:
    assert Types.TUPLE([str, Types.INT()]) == Types.TUPLE([Types.STRING(), Types.INT()])
    assert Types.ROW_NAMED(["a"], [float]) == Types.ROW_NAMED(["a"], [Types.DOUBLE()])
    assert Types.ROW([list[str]]) == Types.ROW([Types.LIST(Types.STRING())])
    assert Types.MAP(str, tuple[int, ...]) == Types.MAP(Types.STRING(), VariadicTupleTypeInfo(Types.BIG_INT()))
    assert Types.OBJECT_ARRAY(City).conform([[("Oslo", 1)]]) == [[City("Oslo", 1)]]
    assert Types.BASIC_ARRAY(str) == Types.BASIC_ARRAY(Types.STRING())
    with pytest.raises(ProgramError, match="cannot hold BigInteger"):
        Types.PRIMITIVE_ARRAY(int)


# ---- records of the program's own classes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Point, [Point(1.0, 2.0), None, Point(float("nan"))]),
        (Segment, [Segment(Point(1.0), ["a"]), Segment(Point(1.0), [], Point(2.0))]),
        (BoxOfBytes, [BoxOfBytes(b"a", [])]),
        (Box[bytes], [BoxOfBytes(b"a", []), Box(b"b", [b"c"])]),
        (Node, [Node(1, Node(2, None, []), [Node(3, None, [])])]),
        (City, [City("Oslo", 1), City("Kyiv"), None]),
        (Pair, [Pair(1, "a"), Pair(None, None)]),
        (Trip, [{"start": City("a")}, {"fare": decimal.Decimal(1), "start": City("b")}, None]),
        (LooseTrip, [{"start": City("a"), "driver": "Bo"}, {"driver": "B", "comment": "-", "start": City("b")}]),
        (tuple[int, ...], [(), (1,), (1, None, 3), None]),
        (tuple, [(1, "a"), ()]),
    ],
)
def test_records_of_the_class_come_back_as_the_very_same_list(hint: Any, values: list[Any]) -> None:
    declared = Types.of(hint)
    assert declared.conform(values) is values
    copy = pickle.loads(cloudpickle.dumps(declared))
    assert (copy, hash(copy)) == (declared, hash(declared))


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        (Point, Point(1, 2), Point(1.0, 2.0)),
        (Point, {"x": 1}, Point(1.0, 0.0)),
        (Point, Row(y=2, x=1), Point(1.0, 2.0)),
        (Segment, {"start": {"x": 1}, "tags": ("a",)}, Segment(Point(1.0), ["a"])),
        (Segment, Segment(Point(1), []), Segment(Point(1.0), [])),
        (City, ("Oslo", 1), City("Oslo", 1)),
        (City, ["Oslo", 1], City("Oslo", 1)),
        (City, Row("Oslo", 1), City("Oslo", 1)),
        (City, {"name": "Oslo"}, City("Oslo", 0)),
        (Trip, {"start": ("Oslo", 1), "fare": 2}, {"start": City("Oslo", 1), "fare": decimal.Decimal(2)}),
        (Trip, Row(start=City("Oslo", 1)), {"start": City("Oslo", 1)}),
        (tuple[float, ...], (1, 2.0), (1.0, 2.0)),
        (tuple[float, ...], [1.5], (1.5,)),
    ],
)
def test_what_loses_nothing_is_converted_in_a_copy(hint: Any, given: Any, expected: Any) -> None:
    before = pickle.dumps(given)
    for others in ([], [expected, None]):
        (found, *_) = Types.of(hint).conform([given, *others])
        assert found == expected
        assert type(found) is type(expected)
        assert repr(found) == repr(expected)  # 1 == 1.0, and a record that was not converted would pass
    assert pickle.dumps(given) == before


@pytest.mark.parametrize(
    ("hint", "wrong", "message"),
    [
        (Point, (1.0, 2.0), r"found \(1.0, 2.0\) of type tuple, declared DataclassTypeInfo<Point>"),
        (Point, Point("1"), r"at \.x found '1' of type str, expected Double"),  # type: ignore[arg-type]
        (Point, {"x": 1, "z": 2}, r"it has the unknown keys \['z'\]"),
        (Point, {"y": 1}, r"TypeError: .*missing 1 required positional argument: 'x'"),
        (Segment, Segment(Point(1.0), ["a", 1]), r"at \.tags\[1\] found 1"),  # type: ignore[list-item]
        (Segment, {"start": {"x": "a"}, "tags": []}, r"at \.start\.x found 'a'"),
        (City, City("Oslo", "many"), r"at \.inhabitants found 'many'"),  # type: ignore[arg-type]
        (City, ("Oslo",), "it has 1 fields instead of 2"),
        (City, 7, "found 7 of type int"),
        (Trip, {"fare": decimal.Decimal(1)}, r"it has no \['start'\]"),
        (Trip, {"start": City("a"), "price": 1}, r"it has the unknown keys \['price'\]"),
        (Trip, {"start": City("a"), "fare": 1.5}, r"at \.fare found 1.5"),
        (Trip, City("a"), "found City"),
        (tuple[int, ...], (1, "b"), r"at \[1\] found 'b'"),
        (tuple[int, ...], "ab", "found 'ab' of type str"),
    ],
)
def test_what_is_not_of_the_class_is_refused_with_its_place(hint: Any, wrong: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message) as refused:
        Types.of(hint).conform([None, wrong])
    assert refused.value.index == 1


def test_a_record_that_lost_a_field_is_refused() -> None:
    @dataclasses.dataclass
    class Word:
        text: str

    bare = Word("a")
    del bare.text
    with pytest.raises(TypeMismatchError, match="it has no field 'text'"):
        Types.of(Word).conform([Word("b"), bare])


def test_a_class_that_refuses_its_fields_is_asked() -> None:
    @dataclasses.dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

    assert Types.of(Even).conform([{"number": 2}]) == [Even(2)]
    with pytest.raises(TypeMismatchError, match="ValueError: odd"):
        Types.of(Even).conform([{"number": 3}])


# ---- hints of any depth ----------------------------------------------------------------------------------------------

#: A hint, the type it stands for, and values of it.
_Known = tuple[Any, TypeInformation, st.SearchStrategy[Any]]

_ATOMS: list[_Known] = [
    (int, Types.BIG_INT(), st.integers()),
    (str, Types.STRING(), st.text(max_size=3)),
    (float, Types.DOUBLE(), st.floats(allow_nan=False)),
    (bool, Types.BOOLEAN(), st.booleans()),
    (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=3)),
    (datetime.date, Types.SQL_DATE(), st.dates()),
    (datetime.datetime, Types.SQL_TIMESTAMP(), st.datetimes()),
    (decimal.Decimal, Types.BIG_DEC(), st.decimals(allow_nan=False)),
    (Any, PICKLED, st.one_of(st.integers(), st.text(max_size=2))),
]


def _larger(known: st.SearchStrategy[_Known]) -> st.SearchStrategy[_Known]:
    def optional(inner: _Known) -> _Known:
        return Optional[inner[0]], inner[1], st.none() | inner[2]  # noqa: UP045

    def list_of(inner: _Known) -> _Known:
        return list[inner[0]], Types.LIST(inner[1]), st.lists(inner[2], max_size=3)  # type: ignore[name-defined]

    def tuple_of(inner: list[_Known]) -> _Known:
        hints, types, values = zip(*inner, strict=True)
        return tuple[hints], Types.TUPLE(types), st.tuples(*values)  # type: ignore[valid-type]

    def any_number_of(inner: _Known) -> _Known:
        values = st.lists(inner[2], max_size=3).map(tuple)
        return tuple[inner[0], ...], VariadicTupleTypeInfo(inner[1]), values  # type: ignore[name-defined]

    def dict_of(inner: _Known) -> _Known:
        values = st.dictionaries(st.text(max_size=2), inner[2], max_size=3)
        return dict[str, inner[0]], Types.MAP(Types.STRING(), inner[1]), values  # type: ignore[name-defined]

    def record_of(inner: list[_Known]) -> _Known:
        names = [f"field{position}" for position in range(len(inner))]
        made = dataclasses.make_dataclass("Made", list(zip(names, (hint for hint, _, _ in inner), strict=True)))
        return made, Types.of(made), st.builds(made, *(values for _, _, values in inner))

    def named_tuple_of(inner: list[_Known]) -> _Known:
        hints = {f"field{position}": hint for position, (hint, _, _) in enumerate(inner)}
        made: Any = NamedTuple("Made", list(hints.items()))  # type: ignore[misc]
        return made, Types.of(made), st.builds(made, *(values for _, _, values in inner))

    def typed_dict_of(inner: list[_Known]) -> _Known:
        fields = {f"field{position}": known for position, known in enumerate(inner)}
        made: Any = TypedDict("Made", {name: hint for name, (hint, _, _) in fields.items()})  # type: ignore[misc]
        return made, Types.of(made), st.fixed_dictionaries({name: values for name, (_, _, values) in fields.items()})

    some = st.lists(known, min_size=1, max_size=3)
    return st.one_of(
        *(known.map(make) for make in (optional, list_of, any_number_of, dict_of)),
        *(some.map(make) for make in (tuple_of, record_of, named_tuple_of, typed_dict_of)),
    )


@settings(max_examples=150)
@given(st.data())
def test_a_hint_of_any_depth_stands_for_a_type_that_takes_its_values_as_they_are(data: st.DataObject) -> None:
    hint, expected, values = data.draw(st.recursive(st.sampled_from(_ATOMS), _larger, max_leaves=6))
    declared = Types.of(hint)
    assert declared == expected
    batch = data.draw(st.lists(values | st.none(), max_size=5))
    assert declared.conform(batch) is batch
    assert [declared._admit(value) for value in batch] == batch
