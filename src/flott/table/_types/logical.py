"""Logical types: what SQL says about a value, frozen. ``arrow.py`` says how columns of them are held.

``str(type)`` is the text that Flink prints for it, for example ``DECIMAL(10, 2) NOT NULL``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, TypeVar

#: The length of STRING and BYTES: as long as you like.
UNLIMITED = 2147483647

MAX_DECIMAL_PRECISION = 38
MAX_TIMESTAMP_PRECISION = 9

T = TypeVar("T", bound="LogicalType")


class Family(Enum):
    """Types of one family are compared and converted alike."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    APPROXIMATE = "approximate"
    CHARACTER = "character"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"
    COLLECTION = "collection"
    NULL = "null"
    OTHER = "other"


class TimeAttribute(Enum):
    """Why a timestamp may be used as the time of an operator."""

    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


@dataclass(frozen=True, kw_only=True)
class LogicalType:
    """Common root. Equal types have equal nullability; ``same_type`` compares without it."""

    family: ClassVar[Family] = Family.OTHER

    nullable: bool = True

    @property
    def root_text(self) -> str:
        """Return the text of the type without its nullability."""
        raise NotImplementedError

    def as_nullable(self: T, nullable: bool = True) -> T:
        """Return the type with a nullability."""
        return self if self.nullable is nullable else replace(self, nullable=nullable)

    @property
    def is_numeric(self) -> bool:
        """Return whether one can calculate with it."""
        return self.family in (Family.INTEGER, Family.DECIMAL, Family.APPROXIMATE)

    def __str__(self) -> str:
        return self.root_text if self.nullable else f"{self.root_text} NOT NULL"


def same_type(one: LogicalType, other: LogicalType) -> bool:
    """Return whether two types are equal but for their outer nullability."""
    return one.as_nullable() == other.as_nullable()


# --- numbers and truth -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BooleanType(LogicalType):
    """TRUE, FALSE and, if nullable, UNKNOWN."""

    family: ClassVar[Family] = Family.BOOLEAN

    @property
    def root_text(self) -> str:
        return "BOOLEAN"


@dataclass(frozen=True, kw_only=True)
class IntegerType(LogicalType):
    """Common root of the integers."""

    family: ClassVar[Family] = Family.INTEGER
    name: ClassVar[str] = "?"
    bits: ClassVar[int] = 0
    digits: ClassVar[int] = 0  #: the precision of the DECIMAL that holds all of them

    @property
    def root_text(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class TinyIntType(IntegerType):
    """8 bits."""

    name: ClassVar[str] = "TINYINT"
    bits: ClassVar[int] = 8
    digits: ClassVar[int] = 3


@dataclass(frozen=True, kw_only=True)
class SmallIntType(IntegerType):
    """16 bits."""

    name: ClassVar[str] = "SMALLINT"
    bits: ClassVar[int] = 16
    digits: ClassVar[int] = 5


@dataclass(frozen=True, kw_only=True)
class IntType(IntegerType):
    """32 bits."""

    name: ClassVar[str] = "INT"
    bits: ClassVar[int] = 32
    digits: ClassVar[int] = 10


@dataclass(frozen=True, kw_only=True)
class BigIntType(IntegerType):
    """64 bits."""

    name: ClassVar[str] = "BIGINT"
    bits: ClassVar[int] = 64
    digits: ClassVar[int] = 19


@dataclass(frozen=True, kw_only=True)
class FloatType(LogicalType):
    """32 bits, binary floating point."""

    family: ClassVar[Family] = Family.APPROXIMATE

    @property
    def root_text(self) -> str:
        return "FLOAT"


@dataclass(frozen=True, kw_only=True)
class DoubleType(LogicalType):
    """64 bits, binary floating point."""

    family: ClassVar[Family] = Family.APPROXIMATE

    @property
    def root_text(self) -> str:
        return "DOUBLE"


@dataclass(frozen=True)
class DecimalType(LogicalType):
    """A decimal number of ``precision`` digits, ``scale`` of them behind the point."""

    family: ClassVar[Family] = Family.DECIMAL

    precision: int = 10
    scale: int = 0

    @property
    def root_text(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


# --- text and bytes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CharType(LogicalType):
    """Text of a fixed length. A length of 0 is that of the literal ''."""

    family: ClassVar[Family] = Family.CHARACTER

    length: int = 1

    @property
    def root_text(self) -> str:
        return f"CHAR({self.length})"


@dataclass(frozen=True)
class VarCharType(LogicalType):
    """Text up to a length."""

    family: ClassVar[Family] = Family.CHARACTER

    length: int = 1

    @property
    def root_text(self) -> str:
        return "STRING" if self.length == UNLIMITED else f"VARCHAR({self.length})"


@dataclass(frozen=True)
class BinaryType(LogicalType):
    """Bytes of a fixed length."""

    family: ClassVar[Family] = Family.BINARY

    length: int = 1

    @property
    def root_text(self) -> str:
        return f"BINARY({self.length})"


@dataclass(frozen=True)
class VarBinaryType(LogicalType):
    """Bytes up to a length."""

    family: ClassVar[Family] = Family.BINARY

    length: int = 1

    @property
    def root_text(self) -> str:
        return "BYTES" if self.length == UNLIMITED else f"VARBINARY({self.length})"


# --- time ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DateType(LogicalType):
    """A day."""

    family: ClassVar[Family] = Family.DATE

    @property
    def root_text(self) -> str:
        return "DATE"


@dataclass(frozen=True)
class TimeType(LogicalType):
    """A time of day. More than three digits behind the second are accepted and not kept, as in Flink."""

    family: ClassVar[Family] = Family.TIME

    precision: int = 0

    @property
    def root_text(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True)
class TimestampType(LogicalType):
    """A date and a time of day, of no time zone."""

    family: ClassVar[Family] = Family.TIMESTAMP

    precision: int = 6
    attribute: TimeAttribute | None = None

    @property
    def root_text(self) -> str:
        return f"TIMESTAMP({self.precision}){_attribute_text(self.attribute)}"


@dataclass(frozen=True)
class LocalZonedTimestampType(LogicalType):
    """A point in time, shown in the time zone of the session."""

    family: ClassVar[Family] = Family.TIMESTAMP

    precision: int = 6
    attribute: TimeAttribute | None = None

    @property
    def root_text(self) -> str:
        return f"TIMESTAMP_LTZ({self.precision}){_attribute_text(self.attribute)}"


def _attribute_text(attribute: TimeAttribute | None) -> str:
    return "" if attribute is None else f" *{attribute.value}*"


@dataclass(frozen=True, kw_only=True)
class YearMonthIntervalType(LogicalType):
    """A number of months."""

    family: ClassVar[Family] = Family.INTERVAL
    text: str = field(default="INTERVAL YEAR TO MONTH", compare=False)  #: the units as written

    @property
    def root_text(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class DayTimeIntervalType(LogicalType):
    """A number of milliseconds."""

    family: ClassVar[Family] = Family.INTERVAL
    text: str = field(default="INTERVAL DAY TO SECOND(3)", compare=False)  #: the units as written

    @property
    def root_text(self) -> str:
        return self.text


# --- of other types --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayType(LogicalType):
    """A sequence of elements."""

    family: ClassVar[Family] = Family.COLLECTION

    element: LogicalType

    @property
    def root_text(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MapType(LogicalType):
    """Values by key."""

    family: ClassVar[Family] = Family.COLLECTION

    key: LogicalType
    value: LogicalType

    @property
    def root_text(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class MultisetType(LogicalType):
    """Elements, each with the number of times it is there."""

    family: ClassVar[Family] = Family.COLLECTION

    element: LogicalType

    @property
    def root_text(self) -> str:
        return f"MULTISET<{self.element}>"


@dataclass(frozen=True)
class RowField:
    """A named field of a row."""

    name: str
    type: LogicalType
    description: str | None = None

    def __str__(self) -> str:
        comment = "" if self.description is None else " '" + self.description.replace("'", "''") + "'"
        return f"{quoted(self.name)} {self.type}{comment}"


@dataclass(frozen=True)
class RowType(LogicalType):
    """Named fields."""

    family: ClassVar[Family] = Family.COLLECTION

    fields: tuple[RowField, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """Return the types of the fields."""
        return tuple(field.type for field in self.fields)

    @property
    def root_text(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>"


def row_type(fields: dict[str, LogicalType], *, nullable: bool = True) -> RowType:
    """Return the row type of named fields."""
    return RowType(tuple(RowField(name, of) for name, of in fields.items()), nullable=nullable)


# --- the rest --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NullType(LogicalType):
    """The type of a NULL of which nothing else is known."""

    family: ClassVar[Family] = Family.NULL

    @property
    def root_text(self) -> str:
        return "NULL"


@dataclass(frozen=True)
class RawType(LogicalType):
    """A Python object that SQL passes on without looking at it."""

    class_name: str = "object"

    @property
    def root_text(self) -> str:
        return f"RAW('{self.class_name}', '...')"


@dataclass(frozen=True, kw_only=True)
class BitmapType(LogicalType):
    """A set of integers of 32 bits, held in the portable form of Roaring bitmaps."""

    @property
    def root_text(self) -> str:
        return "BITMAP"


@dataclass(frozen=True)
class DescriptorType(LogicalType):
    """The names of columns, as an argument of a table function."""

    names: tuple[str, ...] = ()

    @property
    def root_text(self) -> str:
        return "DESCRIPTOR"


@dataclass(frozen=True)
class SymbolType(LogicalType):
    """A word with a meaning for one function, such as the unit of TIMESTAMPADD."""

    symbol: str = ""

    @property
    def root_text(self) -> str:
        return "SYMBOL"


# --- those without parameters ----------------------------------------------------------------------------------------

BOOLEAN = BooleanType()
TINYINT, SMALLINT, INT, BIGINT = TinyIntType(), SmallIntType(), IntType(), BigIntType()
FLOAT, DOUBLE = FloatType(), DoubleType()
STRING, BYTES = VarCharType(UNLIMITED), VarBinaryType(UNLIMITED)
DATE, TIME = DateType(), TimeType()
BITMAP = BitmapType()
NULL = NullType()


def quoted(name: str) -> str:
    """Return a name in the quotes of SQL."""
    return "`" + name.replace("`", "``") + "`"


def is_time_attribute(of: LogicalType) -> bool:
    """Return whether a type is that of a rowtime or proctime column."""
    return isinstance(of, TimestampType | LocalZonedTimestampType) and of.attribute is not None


def is_rowtime(of: LogicalType) -> bool:
    """Return whether a type is that of an event-time column."""
    return isinstance(of, TimestampType | LocalZonedTimestampType) and of.attribute is TimeAttribute.ROWTIME


def is_proctime(of: LogicalType) -> bool:
    """Return whether a type is that of a processing-time column."""
    return isinstance(of, TimestampType | LocalZonedTimestampType) and of.attribute is TimeAttribute.PROCTIME


def plain(of: LogicalType) -> LogicalType:
    """Return a type without a time attribute."""
    if isinstance(of, TimestampType | LocalZonedTimestampType) and of.attribute is not None:
        return replace(of, attribute=None)
    return of
