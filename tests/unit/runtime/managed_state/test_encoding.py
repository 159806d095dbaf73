"""Keys become bytes: equal keys equal bytes, distinct keys distinct ones, in every process."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections import OrderedDict, namedtuple
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.types import Row, RowKind
from flott.errors import KeyTypeError
from flott.runtime.managed_state.encoding import encode_key

UTC = datetime.UTC
PLUS_TWO = datetime.timezone(datetime.timedelta(hours=2))
BERLIN = ZoneInfo("Europe/Berlin")


class Point(NamedTuple):
    x: int
    y: int


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ALICE = "alice"


class Color(Enum):
    RED = 1
    GREEN = 2


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Place:
    country: str
    city: Any
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Other:
    country: str
    city: Any


@dataclasses.dataclass
class Mutable:
    x: int


@dataclasses.dataclass(eq=False)
class HashedByAddress:
    x: int


class Day(datetime.date):
    pass


class Scalar:
    """Behaves like a numpy scalar."""

    dtype = "int64"

    def __init__(self, value: Any):
        self.value = value

    def item(self) -> Any:
        return self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return self.value == other


class NoZone(datetime.tzinfo):
    def utcoffset(self, when: Any) -> None:
        return None


AT = datetime.datetime(2024, 5, 1, 12, 30, 0, 5)

EQUAL = [
    (1, 1.0),
    (1, True),
    (1, Decimal(1)),
    (1, Decimal("1.000")),
    (100, Decimal("1E+2")),
    (1, Level.LOW),
    (1, Scalar(1)),
    (0, -0.0),
    (0, Decimal("-0")),
    (2**70, float(2**70)),
    (2**70, Decimal(2**70)),
    (0.5, Decimal("0.5")),
    (0.5, Decimal("0.50")),
    (float("inf"), Decimal("Infinity")),
    (float("-inf"), Decimal("-Infinity")),
    (Decimal("0.1"), Decimal("0.10")),
    ("alice", Name.ALICE),
    ((1, 2), Point(1, 2)),
    ((1, 2), namedtuple("Pair", "a b")(1, 2)),
    ((1, (True, "a")), (1.0, (1, "a"))),
    (AT.replace(tzinfo=UTC), AT.replace(tzinfo=UTC).astimezone(PLUS_TWO)),
    (AT.replace(tzinfo=UTC), AT.replace(tzinfo=UTC).astimezone(BERLIN)),
    (AT, AT.replace(fold=1)),
    (AT.replace(tzinfo=NoZone()), AT),
    # An hour that comes twice: Python's equality and hash do not look at fold.
    (
        datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
        datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    ),
    (datetime.time(12, tzinfo=UTC), datetime.time(14, tzinfo=PLUS_TWO)),
    (datetime.time(1, 2, 3), datetime.time(1, 2, 3, fold=1)),
    (datetime.date(2024, 5, 1), Day(2024, 5, 1)),
    (datetime.timedelta(hours=24), datetime.timedelta(days=1)),
    (frozenset({1, "a"}), frozenset({"a", True})),
    (Place("DE", 1, "near"), Place("DE", 1.0, "far")),
    (Row(a=1, b=2), Row(b=2, a=1)),
    (Row("x", 1), Row("x", 1.0)),
    (Access.READ | Access.WRITE, Access.WRITE | Access.READ),
]


@pytest.mark.parametrize(("first", "second"), EQUAL, ids=lambda value: type(value).__name__)
def test_keys_that_python_calls_equal_are_equal_bytes(first, second):
    assert first == second
    assert hash(first) == hash(second)
    assert encode_key(first) == encode_key(second)


DISTINCT = [
    None, "", "None", b"", b"a", "a", "1", 1, 2, -1, 1.5, Decimal("0.1"), 0.1, 2**64, -(2**64), (), (1,), ((1,),),
    ("a", "b"), ("ab",), ("a", ("b",)), (("a",), "b"), (None,), frozenset(), frozenset({1}), frozenset({(1,)}),
    Row(1), Row(1, 2), Row(a=1), Row(b=1), Row.of_kind(RowKind.DELETE, 1), Color.RED, Color.GREEN,
    Access.READ, Access.READ | Access.WRITE,
    Place("a", "b"), Other("a", "b"), Place("a", None), datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1),
    datetime.datetime(2024, 5, 1, tzinfo=UTC), datetime.time(0), datetime.time(0, tzinfo=UTC), datetime.timedelta(0),
    datetime.timedelta(days=1), UUID(int=1), float("inf"), float("-inf"), "\ud800", "\u00e9", "e\u0301",
    # More digits than the precision of decimal's context.
    Decimal("0.12345678901234567890123456789012345"), Decimal("0.12345678901234567890123456789012346"),
    Decimal("1E-400"), Decimal("-1E-400"),
]  # fmt: skip


def test_distinct_keys_are_distinct_bytes():
    by_bytes: dict[bytes, Any] = {}
    for key in DISTINCT:
        assert by_bytes.setdefault(encode_key(key), key) is key
    assert len(by_bytes) == len(set(DISTINCT)) == len(DISTINCT)


_zones = st.sampled_from([UTC, PLUS_TWO, datetime.timezone(datetime.timedelta(minutes=-210)), None])
_numbers = st.one_of(
    st.integers(),
    st.integers(-3, 3),
    st.booleans(),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0**63, -(2.0**63), 2.0**80]),
    st.decimals(allow_nan=False, min_value=-(10**30), max_value=10**30),
    st.integers(-1000, 1000).map(lambda n: Decimal(n) / 8),
)
_plain = st.one_of(
    st.none(),
    _numbers,
    st.text(max_size=6),
    st.binary(max_size=6),
    st.dates(),
    st.datetimes(timezones=_zones),
    st.times(timezones=_zones),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from([Color.RED, Color.GREEN, Level.LOW, Name.ALICE]),
)


def _composites(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(parts, max_size=3).map(tuple),
        st.frozensets(parts, max_size=3),
        st.builds(Place, st.text(max_size=2), parts),
        st.builds(Other, st.text(max_size=2), parts),
        st.lists(parts, max_size=3).map(lambda values: Row(*values)),
        st.permutations(["a", "b", "c"]).flatmap(
            lambda names: st.tuples(parts, parts).map(lambda values: Row(**dict(zip(names, values, strict=False))))
        ),
    )


keys = st.recursive(_plain, _composites, max_leaves=6)


@given(keys, keys)
def test_bytes_are_equal_exactly_if_the_keys_are(first, second):
    assert (encode_key(first) == encode_key(second)) == (first == second)


@given(_numbers, _numbers)
def test_numbers_of_all_types_are_compared_by_value(first, second):
    assert (encode_key(first) == encode_key(second)) == (first == second)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_bytes_of_whole_numbers_sort_as_the_numbers_do(first, second):
    assert (encode_key(first) < encode_key(second)) == (first < second)


@pytest.mark.parametrize("precision", [3, 28, 60])
def test_the_precision_of_the_thread_does_not_change_a_decimal(precision):
    key = Decimal("3.14159265358979323846264338327950288")
    expected = encode_key(key)
    with decimal.localcontext() as context:
        context.prec = precision
        assert encode_key(key) == expected


def test_numbers_of_thousands_of_digits_are_keys_too():
    assert encode_key(10**6000) != encode_key(10**6000 + 1)
    assert encode_key(Decimal(10**6000)) == encode_key(10**6000)


@pytest.mark.parametrize(
    "key",
    [[1], {1: 2}, {1}, bytearray(b"a"), Mutable(1), OrderedDict(), ([1],), ((), []), Place("a", [1]), Row([1])],
    ids=repr,
)
def test_a_mutable_key_is_refused_with_advice(key):
    with pytest.raises(KeyTypeError, match=r"is mutable and cannot be hashed\. Use a str.* tuple\(\.\.\.\)"):
        encode_key(key)


@pytest.mark.parametrize(
    "key",
    [object(), HashedByAddress(1), (object(),), lambda: 1, int, Place, 1j, Fraction(1, 3), range(3)],
    ids=lambda key: type(key).__name__,
)
def test_a_key_without_a_lasting_identity_is_refused_with_advice(key):
    with pytest.raises(KeyTypeError, match=r"no identity that is the same in every process.* Use a str"):
        encode_key(key)


@pytest.mark.parametrize(
    "key", [float("nan"), Decimal("NaN"), Decimal("sNaN"), (1, float("nan")), Place("a", float("nan"))], ids=repr
)
def test_nan_is_refused_with_advice(key):
    with pytest.raises(KeyTypeError, match=r"NaN.*never meet.*Map it to None"):
        encode_key(key)


def test_a_refusal_does_not_print_pages():
    with pytest.raises(KeyTypeError) as refusal:
        encode_key(list(range(10_000)))
    assert len(str(refusal.value)) < 400


def test_numpy_scalars_are_the_keys_they_equal_and_other_numpy_things_are_refused():
    numpy = pytest.importorskip("numpy")
    pairs = [
        (numpy.int64(5), 5), (numpy.uint8(5), 5), (numpy.float64(0.5), 0.5), (numpy.float32(0.5), 0.5),
        (numpy.bool_(True), 1), (numpy.str_("a"), "a"), (numpy.bytes_(b"a"), b"a"),
    ]  # fmt: skip
    for scalar, plain in pairs:
        assert encode_key(scalar) == encode_key(plain)
        assert encode_key((scalar,)) == encode_key((plain,))
    for refused in [
        numpy.array([1, 2]), numpy.array(5), numpy.longdouble(1) / 3, numpy.datetime64("2024-05-01"), numpy.int64,
        numpy.datetime64("NaT"), numpy.float64("nan"), numpy.float32("nan"), numpy.complex128(1),
    ]:  # fmt: skip
        with pytest.raises(KeyTypeError):
            encode_key(refused)


def test_pandas_timestamps_are_the_keys_they_equal():
    pandas = pytest.importorskip("pandas")
    for plain in (AT, AT.replace(tzinfo=UTC), AT.replace(tzinfo=BERLIN)):
        assert encode_key(pandas.Timestamp(plain)) == encode_key(plain)
    assert encode_key(pandas.Timedelta(days=1)) == encode_key(datetime.timedelta(days=1))
    assert encode_key(pandas.Timedelta(1, "ns")) != encode_key(pandas.Timedelta(2, "ns"))
    with pytest.raises(KeyTypeError, match="NaT"):
        encode_key(pandas.NaT)
