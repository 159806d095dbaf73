"""Types of single values: numbers, text, dates, and the type that accepts anything."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from flott.common.time import Instant
from flott.common.typeinfo._float32 import rounded
from flott.common.typeinfo._type_information import Rejected, TypeInformation


class BasicType(Enum):
    """The indivisible types; the value is what Flink prints."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


@dataclass(frozen=True, slots=True, repr=False)
class BasicTypeInfo(TypeInformation):
    """A basic type whose values need nothing but the right class: String, Boolean, BigInteger, Instant."""

    _basic_type: BasicType

    def _python_type(self) -> type:
        return _PYTHON_TYPES[self._basic_type]

    def _takes(self, kind: type) -> bool:
        # bool is a subclass of int, and True in an INT field is a mistake.
        return (kind is not bool or self._basic_type is BasicType.BOOLEAN) and TypeInformation._takes(self, kind)

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return IntegerTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return IntegerTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return IntegerTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return IntegerTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return FloatTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return DoubleTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return CharTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return DecimalTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INSTANT)


_PYTHON_TYPES: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BYTE: int,
    BasicType.BOOLEAN: bool,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.CHAR: str,
    BasicType.BIG_INT: int,
    BasicType.BIG_DEC: decimal.Decimal,
    BasicType.INSTANT: Instant,
}

# Packing a whole batch is the cheapest range check there is: a third of min() and max().
_PACKING = {BasicType.BYTE: "b", BasicType.SHORT: "h", BasicType.INT: "i", BasicType.LONG: "q"}


@dataclass(frozen=True, slots=True, repr=False)
class IntegerTypeInfo(BasicTypeInfo):
    """Byte, Short, Integer, Long: an int within Java's range."""

    def _contents_match(self, values: Sequence[Any]) -> bool:
        try:
            struct.pack(f"{len(values)}{_PACKING[self._basic_type]}", *values)
        except struct.error:
            return False
        return True

    def _admit_contents(self, value: Any) -> Any:
        if self._contents_match((value,)):
            return value
        limit = 1 << (8 * struct.calcsize(_PACKING[self._basic_type]) - 1)
        raise Rejected(value, self, f"its range is {-limit} to {limit - 1}: declare Types.LONG() or Types.BIG_INT()")


@dataclass(frozen=True, slots=True, repr=False)
class DoubleTypeInfo(BasicTypeInfo):
    """Double: Python's float; an int becomes one."""

    def _convert(self, values: list[Any]) -> list[Any]:
        if set(map(type, values)) <= {int, float}:
            try:
                return list(map(float, values))
            except OverflowError:
                pass  # one int is too large: find out which
        return TypeInformation._convert(self, values)

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise Rejected(value, self, "too large for a float") from None
        raise Rejected(value, self)


@dataclass(frozen=True, slots=True, repr=False)
class FloatTypeInfo(DoubleTypeInfo):
    """Float: Python's float, rounded to 32 bits."""

    def _contents_match(self, values: Sequence[Any]) -> bool:
        return rounded(values) == list(values)

    def _convert(self, values: list[Any]) -> list[Any]:
        if set(map(type, values)) == {float}:
            return rounded(values)
        return TypeInformation._convert(self, values)

    def _admit_contents(self, value: Any) -> Any:
        return rounded((value,))[0]

    def _convert_one(self, value: Any) -> Any:
        return rounded((DoubleTypeInfo._convert_one(self, value),))[0]


@dataclass(frozen=True, slots=True, repr=False)
class CharTypeInfo(BasicTypeInfo):
    """A string of exactly one character."""

    def _contents_match(self, values: Sequence[Any]) -> bool:
        return list(map(len, values)).count(1) == len(values)

    def _admit_contents(self, value: Any) -> Any:
        if len(value) == 1:
            return value
        raise Rejected(value, self, "a Char is one character: declare Types.STRING()")


@dataclass(frozen=True, slots=True, repr=False)
class DecimalTypeInfo(BasicTypeInfo):
    """Decimal; an int becomes one, a float does not, because it is not the number its author wrote."""

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return decimal.Decimal(value)
        raise Rejected(value, self)


class SqlTimeTypeInfo(TypeInformation):
    """Factories for the three SQL time types."""

    __slots__ = ()

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()


@dataclass(frozen=True, slots=True, repr=False)
class DateTypeInfo(TypeInformation):
    """datetime.date; of a datetime the date remains, as in Flink."""

    def _python_type(self) -> type:
        return datetime.date

    def _takes(self, kind: type) -> bool:
        return issubclass(kind, datetime.date) and not issubclass(kind, datetime.datetime)

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.date()
        raise Rejected(value, self)

    def __repr__(self) -> str:
        return "DateTypeInfo"


@dataclass(frozen=True, slots=True, repr=False)
class TimeTypeInfo(TypeInformation):
    """datetime.time."""

    def _python_type(self) -> type:
        return datetime.time

    def __repr__(self) -> str:
        return "TimeTypeInfo"


@dataclass(frozen=True, slots=True, repr=False)
class TimestampTypeInfo(TypeInformation):
    """datetime.datetime."""

    def _python_type(self) -> type:
        return datetime.datetime

    def __repr__(self) -> str:
        return "TimestampTypeInfo"


class _LocalTimeKind(Enum):
    LOCAL_DATE = 0
    LOCAL_TIME = 1
    LOCAL_DATE_TIME = 2


_LOCAL_TIMES: dict[_LocalTimeKind, Callable[[], TypeInformation]] = {
    _LocalTimeKind.LOCAL_DATE: DateTypeInfo,
    _LocalTimeKind.LOCAL_TIME: TimeTypeInfo,
    _LocalTimeKind.LOCAL_DATE_TIME: TimestampTypeInfo,
}


@dataclass(frozen=True, slots=True, repr=False)
class LocalTimeTypeInfo(TypeInformation):
    """java.time's date, time and timestamp: in Python the same classes as the SQL time types."""

    TimeType: ClassVar = _LocalTimeKind

    _time_type: _LocalTimeKind

    def _matches(self, values: Sequence[Any]) -> bool:
        return _LOCAL_TIMES[self._time_type]()._matches(values)

    def _admit(self, value: Any) -> Any:
        return _LOCAL_TIMES[self._time_type]()._admit(value)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"


@dataclass(frozen=True, slots=True, repr=False)
class PickledBytesTypeInfo(TypeInformation):
    """Any Python object that can be pickled. Costs nothing here: what cannot travel shows when it is pickled."""

    def conform(self, values: list[Any]) -> list[Any]:
        return values

    def _matches(self, values: Sequence[Any]) -> bool:
        return True

    def _admit(self, value: Any) -> Any:
        return value

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"
