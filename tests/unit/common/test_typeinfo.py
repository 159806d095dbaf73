"""Types accept what they declare, convert what loses nothing, and name the first record that is neither."""

from __future__ import annotations

import datetime
import decimal
import enum
import pickle
from collections import namedtuple
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.time import Instant
from flott.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation, Types
from flott.common.typeinfo._float32 import rounded, shortest
from flott.common.types import Row, RowKind
from flott.errors import ProgramError, TypeMismatchError

BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])

Point = namedtuple("Point", ["name", "value"])


class Color(enum.IntEnum):
    RED = 1


SAMPLES: list[tuple[TypeInformation, list[Any]]] = [
    (Types.STRING(), ["a", "", None]),
    (Types.BOOLEAN(), [True, False, None]),
    (Types.BYTE(), [-128, 127, None]),
    (Types.SHORT(), [-(2**15), 2**15 - 1]),
    (Types.INT(), [-(2**31), 2**31 - 1, None, Color.RED]),
    (Types.LONG(), [-(2**63), 2**63 - 1]),
    (Types.FLOAT(), [1.5, float("inf"), None]),
    (Types.DOUBLE(), [1.5, float("nan")]),
    (Types.CHAR(), ["a", "ä", None]),
    (Types.BIG_INT(), [2**200, -1]),
    (Types.BIG_DEC(), [decimal.Decimal("1.10")]),
    (Types.INSTANT(), [Instant(1, 2), None]),
    (Types.SQL_DATE(), [datetime.date(2026, 1, 1)]),
    (Types.SQL_TIME(), [datetime.time(1, 2)]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2026, 1, 1)]),
    (Types.PICKLED_BYTE_ARRAY(), [1, "a", object]),
    (PAIR, [("a", 1), (None, None), None, Point("b", 2)]),
    (Types.TUPLE([]), [(), ()]),
    (Types.ROW([Types.STRING(), Types.INT()]), [Row(f0="a", f1=1), Row(f0=None, f1=2), Row(x="b", y=3), None]),
    (PERSON, [Row(name="a", age=1), None]),
    (Types.LIST(Types.INT()), [[1, 2], [], [None], None]),
    (Types.MAP(Types.STRING(), PAIR), [{"a": ("b", 1)}, {}, None]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2]]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab", b"", None]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None]]),
    (Types.OBJECT_ARRAY(PAIR), [[("a", 1)], [None]]),
    (ExternalTypeInfo(PAIR), [("a", 1)]),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), [datetime.date(2026, 1, 1)]),
]


@pytest.mark.parametrize(("declared", "values"), SAMPLES, ids=[repr(declared) for declared, _ in SAMPLES])
def test_a_batch_of_the_declared_type_comes_back_as_the_very_same_list(declared: TypeInformation, values: list[Any]):
    assert declared.conform(values) is values
    empty: list[Any] = []
    assert declared.conform(empty) is empty


@pytest.mark.parametrize(("declared", "values"), SAMPLES, ids=[repr(declared) for declared, _ in SAMPLES])
def test_a_type_is_a_value_that_survives_pickling(declared: TypeInformation, values: list[Any]):
    copy = pickle.loads(pickle.dumps(declared))
    assert copy == declared
    assert hash(copy) == hash(declared)
    assert repr(copy) == repr(declared)


def test_types_that_differ_are_not_equal():
    declared = [sample for sample, _ in SAMPLES]
    for position, one in enumerate(declared):
        assert all(one != other for other in declared[position + 1 :])


@pytest.mark.parametrize(
    ("declared", "attribute"), [(PAIR, "_field_types"), (PERSON, "_field_names"), (Types.INT(), "_basic_type")]
)
def test_a_type_cannot_be_changed(declared: TypeInformation, attribute: str):
    with pytest.raises(AttributeError):
        setattr(declared, attribute, None)


@pytest.mark.parametrize(
    ("declared", "printed"),
    [
        (PAIR, "TupleTypeInfo(String, Integer)"),
        (PERSON, "RowTypeInfo(name: String, age: Integer)"),
        (Types.ROW([Types.LONG()]), "RowTypeInfo(Long)"),
        (Types.LIST(Types.BIG_DEC()), "ListTypeInfo<BigDecimal>"),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), "MapTypeInfo<String, Double>"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "PrimitiveArrayTypeInfo<Integer>"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
    ],
)
def test_a_type_prints_as_in_pyflink(declared: TypeInformation, printed: str):
    assert repr(declared) == printed


@pytest.mark.parametrize(
    ("declared", "given_values", "expected"),
    [
        (Types.DOUBLE(), [1, 2.5, None], [1.0, 2.5, None]),
        (Types.BIG_DEC(), [3], [decimal.Decimal(3)]),
        (Types.SQL_DATE(), [datetime.datetime(2026, 1, 2, 3)], [datetime.date(2026, 1, 2)]),
        (PAIR, [["a", 1], ("b", 2)], [("a", 1), ("b", 2)]),
        (PAIR, [Row("a", 1), None], [("a", 1), None]),
        (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), [("a", 1), ("b", 2.5)], [("a", 1.0), ("b", 2.5)]),
        (Types.LIST(Types.DOUBLE()), [(1, 2)], [[1.0, 2.0]]),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), [{"a": 1}], [{"a": 1.0}]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [bytearray(b"x"), [-1, 0]], [b"x", b"\xff\x00"]),
        (
            PERSON,
            [("a", 1), {"age": 2, "name": "b"}, ["c", 3]],
            [Row(name=n, age=a) for n, a in zip("abc", (1, 2, 3), strict=True)],
        ),
        (PERSON, [{"name": "a"}], [Row(name="a", age=None)]),
        (PERSON, [Row("a", 1), Row(name="b", age=2)], [Row(name="a", age=1), Row(name="b", age=2)]),
        (Types.ROW([Types.DOUBLE()]), [(1,), (2.0,)], [Row(f0=1.0), Row(f0=2.0)]),
        (
            Types.ROW([Types.STRING(), Types.INT()]),
            [Row("a", 1), Row(f0="b", f1=2), Row(x="c", y=3), {"f0": "d"}],
            [Row(f0="a", f1=1), Row(f0="b", f1=2), Row(x="c", y=3), Row(f0="d", f1=None)],
        ),
        (Types.TUPLE([Types.LIST(Types.DOUBLE()), PAIR]), [([1], ["a", 1])], [([1.0], ("a", 1))]),
    ],
)
def test_what_loses_nothing_is_converted(declared: TypeInformation, given_values: list[Any], expected: list[Any]):
    before = pickle.dumps(given_values)
    converted = declared.conform(given_values)
    assert converted == expected
    assert [type(value) for value in converted] == [type(value) for value in expected]
    assert pickle.dumps(given_values) == before, "the user's own objects are never changed"


def test_a_row_with_other_order_or_kind_arrives_with_the_declared_order_and_its_kind():
    given_row = Row.of_kind(RowKind.DELETE, age=1, name="a")
    (row,) = PERSON.conform([given_row])
    assert list(row) == ["a", 1]
    assert row.get_row_kind() is RowKind.DELETE
    (plain,) = PERSON.conform([Row.of_kind(RowKind.UPDATE_AFTER, "a", 1)])
    assert plain.name == "a"
    assert plain.get_row_kind() is RowKind.UPDATE_AFTER


@pytest.mark.parametrize(
    ("declared", "values", "index", "parts"),
    [
        (Types.INT(), [1, True], 1, ["found True of type bool", "declared Integer"]),
        (Types.INT(), [2**31], 0, ["2147483648", "range"]),
        (Types.LONG(), [1, 2, 2**63], 2, ["range"]),
        (Types.DOUBLE(), [10**400], 0, ["too large"]),
        (Types.BOOLEAN(), [1], 0, ["found 1 of type int"]),
        (Types.CHAR(), ["ab"], 0, ["one character"]),
        (Types.STRING(), ["a", b"b"], 1, ["found b'b' of type bytes"]),
        (PAIR, [("a", 1), ("b", "c"), (1, 1)], 1, ["at [1]", "found 'c' of type str", "expected Integer", repr(PAIR)]),
        (PAIR, [("a", 1), ("b",)], 1, ["1 fields instead of 2"]),
        (PAIR, [("a", 1), "ab"], 1, ["found 'ab' of type str"]),
        (PERSON, [("a", 1), {"name": "a", "age": "x"}], 1, ["at .age", "found 'x'"]),
        (PERSON, [{"nam": "a"}], 0, ["unknown keys ['nam']"]),
        (PERSON, [Row(nome="a", age=1)], 0, ["its fields are ['nome', 'age']"]),
        (Types.LIST(PAIR), [[("a", 1)], [("a", 1), ("b", None), ("c", 1.0)]], 1, ["at [2][1]", "found 1.0"]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1, 2: 2}], 0, ["at .key", "found 2"]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": "x"}], 0, ["at ['a']"]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [[1, 300]], 0, ["at [1]"]),
    ],
)
def test_the_first_bad_record_is_named(declared: TypeInformation, values: list[Any], index: int, parts: list[str]):
    with pytest.raises(TypeMismatchError) as caught:
        declared.conform(values)
    assert caught.value.index == index
    for part in parts:
        assert part in str(caught.value)


def test_the_first_bad_record_is_the_earliest_even_if_a_later_one_fails_in_an_earlier_field():
    with pytest.raises(TypeMismatchError) as caught:
        PAIR.conform([("a", 1)] * 600 + [("b", "bad"), (0, 1)])
    assert caught.value.index == 600


@pytest.mark.parametrize("arity", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("size", [1, 511, 512, 513, 1500])
def test_tuples_of_every_arity_and_batches_of_every_size_are_checked_to_the_last_field(arity: int, size: int):
    declared = Types.TUPLE([Types.INT()] * arity)
    values: list[Any] = [tuple(range(arity))] * size
    assert declared.conform(values) is values
    for bad in ((*range(arity - 1), "x"), tuple(range(arity + 1)), tuple(range(arity - 1))):
        with pytest.raises(TypeMismatchError) as caught:
            declared.conform([*values, bad])
        assert caught.value.index == size


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(TypeMismatchError) as caught:
        Types.INT().conform(["x" * 10_000])
    assert len(str(caught.value)) < 300


def test_numpy_scalars_and_arrays_become_pythons_own():
    numpy = pytest.importorskip("numpy")
    declared = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE(), Types.BOOLEAN(), Types.LIST(Types.INT())])
    (record,) = declared.conform([("a", numpy.int64(1), numpy.float64(2.0), numpy.bool_(True), numpy.array([1, 2]))])
    assert record == ("a", 1, 2.0, True, [1, 2])
    assert [type(field) for field in record] == [str, int, float, bool, list]
    with pytest.raises(TypeMismatchError):
        Types.INT().conform([numpy.float64(1.0)])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Types.TUPLE(["int"]),  # type: ignore[list-item]
        lambda: Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()]),
        lambda: Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()]),
        lambda: Types.PRIMITIVE_ARRAY(Types.STRING()),
        lambda: Types.BASIC_ARRAY(PAIR),
        lambda: Types.LIST(Types.INT),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_type_is_refused_when_it_is_made(wrong: Any):
    with pytest.raises(ProgramError):
        wrong()


def test_row_types_without_names_answer_with_flinks_default_names():
    declared = Types.ROW([Types.INT(), Types.STRING()])
    assert declared.get_field_names() == ["f0", "f1"]
    assert declared.get_field_index("f1") == 1
    assert declared.get_field_index("x") == -1
    assert declared.get_field_types() == [Types.INT(), Types.STRING()]


# ---- the property: conform accepts exactly what a slow, obvious check accepts, and at the same position ------------


def accepts(declared: Any, value: Any) -> bool:
    """The reference: one value, by the words of the specification. ``declared`` is a description, not a type."""
    if value is None:
        return True
    kind, *inner = declared
    if kind in BITS:
        limit = 2 ** (BITS[kind] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind == "DOUBLE":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "STRING":
        return isinstance(value, str)
    if kind == "BOOLEAN":
        return isinstance(value, bool)
    if kind == "LIST":
        return isinstance(value, (list, tuple)) and all(accepts(inner[0], element) for element in value)
    if kind == "MAP":
        return isinstance(value, dict) and all(
            accepts(inner[0], key) and accepts(inner[1], element) for key, element in value.items()
        )
    assert kind in ("TUPLE", "ROW")
    sequences = (tuple, list) if kind == "ROW" else (tuple, list, Row)
    sequences = (*sequences, Row)
    return isinstance(value, sequences) and len(value) == len(inner) and all(map(accepts, inner, value))


def build(declared: Any) -> TypeInformation:
    kind, *inner = declared
    parts = list(map(build, inner))
    if kind in ("TUPLE", "ROW"):
        return getattr(Types, kind)(parts)
    return getattr(Types, kind)(*parts)


SCALARS = st.sampled_from([("INT",), ("LONG",), ("BYTE",), ("DOUBLE",), ("STRING",), ("BOOLEAN",)])
DECLARED = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(st.just("LIST"), inner),
        st.tuples(st.just("MAP"), st.just(("STRING",)), inner),
        st.builds(lambda kind, fields: (kind, *fields), st.sampled_from(["TUPLE", "ROW"]), st.lists(inner, max_size=3)),
    ),
    max_leaves=4,
)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-200, 200),
    st.sampled_from([2**31, -(2**31), 2**63 - 1, 2**63, -(2**63) - 1]),
    st.floats(allow_nan=False),
    st.text(max_size=2),
    st.binary(max_size=2),
)


def fitting(declared: Any) -> st.SearchStrategy[Any]:
    kind, *inner = declared
    if kind in BITS:
        return st.integers(-100, 100)
    if kind == "DOUBLE":
        return st.floats(allow_nan=False) | st.integers(-5, 5)
    if kind == "STRING":
        return st.text(max_size=2)
    if kind == "BOOLEAN":
        return st.booleans()
    if kind == "LIST":
        return st.lists(fitting(inner[0]), max_size=3)
    if kind == "MAP":
        return st.dictionaries(st.text(max_size=2), fitting(inner[1]), max_size=2)
    fields = st.tuples(*map(fitting, inner))
    return fields | fields.map(list) | fields.map(lambda values: Row(*values))


def batches(declared: Any) -> st.SearchStrategy[tuple[Any, list[Any]]]:
    mostly = fitting(declared) | fitting(declared) | ATOMS | st.lists(ATOMS, max_size=3).map(tuple)
    return st.tuples(st.just(declared), st.lists(mostly, max_size=8))


@settings(max_examples=300)
@given(DECLARED.flatmap(batches))
def test_conform_accepts_exactly_what_the_slow_check_accepts(case: tuple[Any, list[Any]]):
    declared, values = case
    type_info = build(declared)
    bad = next((index for index, value in enumerate(values) if not accepts(declared, value)), None)
    if bad is not None:
        with pytest.raises(TypeMismatchError) as caught:
            type_info.conform(values)
        assert caught.value.index == bad
        return
    conformed = type_info.conform(values)
    assert len(conformed) == len(values)
    # What has been brought to the type stays as it is, down to the identity of the list.
    assert type_info.conform(conformed) is conformed
    if not any(new is not old for new, old in zip(conformed, values, strict=True)):
        assert conformed is values


@given(st.lists(st.floats() | st.none() | st.integers(-(2**60), 2**60), max_size=5))
def test_floats_have_32_bits(values: list[Any]):
    def expected(value: Any) -> Any:
        return None if value is None else numpy.float32(float(value)).item()

    with numpy.errstate(over="ignore"):
        wanted = [expected(value) for value in values]
    found = Types.FLOAT().conform(values)
    assert list(map(repr, found)) == list(map(repr, wanted))
    assert list(map(repr, Types.FLOAT().conform(found))) == list(map(repr, wanted))
    tuples = Types.TUPLE([Types.FLOAT(), Types.INT()]).conform([(value, 1) for value in values])
    assert [repr(each) for each, _ in tuples] == list(map(repr, wanted))


def test_a_double_keeps_its_64_bits():
    assert Types.DOUBLE().conform([110.1, 1]) == [110.1, 1.0]
    assert Types.FLOAT().conform([110.1]) == [110.0999984741211]
    assert Types.FLOAT() != Types.DOUBLE()


@given(st.floats(width=32, allow_nan=False))
def test_the_shortest_text_of_a_float_is_read_as_the_same(value: float):
    short = shortest(value)
    assert rounded([short]) == rounded([value])
    assert len(repr(short)) <= len(repr(value))
