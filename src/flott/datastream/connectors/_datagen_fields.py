"""Fields of generated rows: each value is a function of a seed, the field's name and the row's index. Pure.

An epoch that is repeated, on another machine and at another parallelism, therefore generates the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Self
from zlib import crc32

from flott.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flott.common.types import Row
from flott.errors import ProgramError

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_UNIT = 1 / (1 << 53)


def mixed(number: int) -> int:
    """Return 64 bits that look random (the finalizer of SplitMix64).

    >>> mixed(1) != mixed(2), 0 <= mixed(-5) < 2**64
    (True, True)
    """
    number = (number + _GOLDEN) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


@dataclass(frozen=True)
class GeneratedField(ABC):
    """One field of generated rows."""

    null_rate: float = field(default=0.0, kw_only=True)  #: this share of the values is None

    def with_nulls(self, rate: float) -> Self:
        """Return the field with this share of its values None."""
        if not 0 <= rate <= 1:
            raise ProgramError(f"The rate of nulls is between 0 and 1, found {rate}.")
        return replace(self, null_rate=rate)

    @abstractmethod
    def value(self, index: int, bits: int) -> Any:
        """Return the value of row ``index``; ``bits`` are 64 random bits of it."""

    @property
    @abstractmethod
    def type_info(self) -> TypeInformation:
        """Return the type of the values."""

    @property
    def count(self) -> int | None:
        """Return how many values there are, None if there is no end."""
        return None


@dataclass(frozen=True)
class SequenceField(GeneratedField):
    """Numbers one after the other. With an end (inclusive), the source ends there, too."""

    start: int
    end: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        if self.step == 0 or (self.end is not None and (self.end - self.start) * self.step < 0):
            raise ProgramError(f"A sequence from {self.start} to {self.end} cannot have steps of {self.step}.")

    def value(self, index: int, bits: int) -> int:
        return self.start + index * self.step

    @property
    def type_info(self) -> TypeInformation:
        return Types.LONG()

    @property
    def count(self) -> int | None:
        return None if self.end is None else (self.end - self.start) // self.step + 1


@dataclass(frozen=True)
class IntegerField(GeneratedField):
    """Whole numbers of a range, both ends included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)

    def value(self, index: int, bits: int) -> int:
        return self.low + bits % (self.high - self.low + 1)

    @property
    def type_info(self) -> TypeInformation:
        return Types.LONG()


@dataclass(frozen=True)
class FloatField(GeneratedField):
    """Numbers of a range."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)

    def value(self, index: int, bits: int) -> float:
        return self.low + (self.high - self.low) * ((bits >> 11) * _UNIT)

    @property
    def type_info(self) -> TypeInformation:
        return Types.DOUBLE()


@dataclass(frozen=True)
class BooleanField(GeneratedField):
    """True for a share of the rows."""

    share: float = 0.5

    def value(self, index: int, bits: int) -> bool:
        return (bits >> 11) * _UNIT < self.share

    @property
    def type_info(self) -> TypeInformation:
        return Types.BOOLEAN()


@dataclass(frozen=True)
class StringField(GeneratedField):
    """Strings of random characters, of one length or of lengths in a range."""

    min_length: int
    max_length: int
    alphabet: str = "0123456789abcdef"

    def __post_init__(self) -> None:
        _check_range(self.min_length, self.max_length)
        if self.min_length < 0 or not self.alphabet:
            raise ProgramError("Strings have a length of at least 0 and an alphabet that is not empty.")

    def value(self, index: int, bits: int) -> str:
        alphabet, size = self.alphabet, len(self.alphabet)
        length = self.min_length + bits % (self.max_length - self.min_length + 1)
        found: list[str] = []
        while len(found) < length:
            bits = mixed(bits)
            rest = bits
            for _ in range(min(8, length - len(found))):
                rest, digit = divmod(rest, size)
                found.append(alphabet[digit])
        return "".join(found)

    @property
    def type_info(self) -> TypeInformation:
        return Types.STRING()


@dataclass(frozen=True)
class ChoiceField(GeneratedField):
    """One of some values; weights say how often each of them comes."""

    values: tuple[Any, ...]
    weights: tuple[float, ...] | None = None
    bounds: tuple[float, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        weights = self.weights or (1.0,) * len(self.values)
        if not self.values or len(weights) != len(self.values) or min(weights) < 0 or not sum(weights) > 0:
            raise ProgramError(
                f"Choices are at least one value with a weight each, found {len(self.values)} values and the weights"
                f" {self.weights}."
            )
        object.__setattr__(self, "bounds", tuple(bound / sum(weights) for bound in accumulate(weights)))

    def value(self, index: int, bits: int) -> Any:
        return self.values[min(bisect(self.bounds, (bits >> 11) * _UNIT), len(self.values) - 1)]

    @property
    def type_info(self) -> TypeInformation:
        for kind, declared in (
            (bool, Types.BOOLEAN()),
            (str, Types.STRING()),
            (int, Types.LONG()),
            (float, Types.DOUBLE()),
        ):
            if all(type(value) is kind for value in self.values):
                return declared
        return Types.PICKLED_BYTE_ARRAY()


@dataclass(frozen=True)
class TimestampField(GeneratedField):
    """Times that advance by a step, each up to ``max_past`` earlier at random: rows out of order."""

    start: datetime
    step: timedelta
    max_past: timedelta = timedelta(0)

    def value(self, index: int, bits: int) -> datetime:
        past = self.max_past * ((bits >> 11) * _UNIT) if self.max_past else self.max_past
        return self.start + index * self.step - past

    @property
    def type_info(self) -> TypeInformation:
        return Types.SQL_TIMESTAMP()


class Fields:
    """Makes fields of generated rows.

    >>> rows = RowGenerator({"id": Fields.sequence(1), "name": Fields.strings(4), "x": Fields.integers(0, 9)}, seed=7)
    >>> rows(0)
    Row(id=1, name='4777', x=6)
    """

    @staticmethod
    def sequence(start: int, end: int | None = None, step: int = 1) -> SequenceField:
        """Return numbers one after the other. With an end (inclusive) the source is bounded."""
        return SequenceField(start, end, step)

    @staticmethod
    def integers(low: int, high: int) -> IntegerField:
        """Return whole numbers of a range, both ends included."""
        return IntegerField(low, high)

    @staticmethod
    def floats(low: float, high: float) -> FloatField:
        """Return numbers of a range."""
        return FloatField(low, high)

    @staticmethod
    def booleans(share: float = 0.5) -> BooleanField:
        """Return True for a share of the rows."""
        return BooleanField(share)

    @staticmethod
    def strings(length: int, max_length: int | None = None, alphabet: str = "0123456789abcdef") -> StringField:
        """Return strings of one length, or of lengths up to ``max_length``."""
        return StringField(length, length if max_length is None else max_length, alphabet)

    @staticmethod
    def choices(values: Sequence[Any], weights: Sequence[float] | None = None) -> ChoiceField:
        """Return one of some values."""
        return ChoiceField(tuple(values), None if weights is None else tuple(weights))

    @staticmethod
    def timestamps(start: datetime, step: timedelta, max_past: timedelta = timedelta(0)) -> TimestampField:
        """Return times that advance by a step, each up to ``max_past`` earlier."""
        return TimestampField(start, step, max_past)


class RowGenerator:
    """A function from an index to a row."""

    def __init__(self, fields: Mapping[str, GeneratedField], seed: int = 0):
        for name, one in fields.items():
            if not isinstance(one, GeneratedField):
                raise ProgramError(f"The field {name!r} is made by one of Fields' methods, found {one!r}.")
        if not fields:
            raise ProgramError("A generated row has at least one field, found none.")
        self._names = tuple(fields)
        self._fields = tuple(fields.values())
        #: The name is part of the seed: another order of the fields does not change their values.
        self._seeds = tuple(mixed(seed ^ crc32(name.encode()) << 16) for name in fields)
        self._parts = list(zip(self._fields, self._seeds, strict=True))

    def __call__(self, index: int) -> Row:
        values: list[Any] = []
        for one, seed in self._parts:
            bits = mixed(seed ^ index)
            if one.null_rate and (mixed(bits) >> 11) * _UNIT < one.null_rate:
                values.append(None)
            else:
                values.append(one.value(index, bits))
        row = Row(*values)
        row._fields = self._names
        return row

    @property
    def count(self) -> int | None:
        """Return how many rows there are: as many as the shortest sequence has numbers."""
        return min((one.count for one in self._fields if one.count is not None), default=None)

    @property
    def type_info(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return Types.ROW_NAMED(list(self._names), [one.type_info for one in self._fields])


def _check_range(low: float, high: float) -> None:
    if not low <= high:
        raise ProgramError(f"A range begins at its lower end, found {low} to {high}.")
