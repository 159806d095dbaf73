"""Data types of tables: ``DataTypes`` and what its methods return, with PyFlink's names.

A :class:`DataType` is a logical type with PyFlink's methods. The planner works with the logical type, which
``logical_type_of`` returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar

from flott._absent import names_of
from flott.common.types import Row, RowKind
from flott.errors import ProgramError
from flott.table._types import logical
from flott.table._types.logical import LogicalType

__all__ = ["DataType", "DataTypes", "Row", "RowField", "RowKind", "RowType", "logical_type_of"]


class DataType:
    """The type of a column or value: made by the methods of :class:`DataTypes`."""

    def __init__(self, of: LogicalType) -> None:
        self._logical = of

    def not_null(self) -> DataType:
        """Return the type without NULL."""
        return data_type_of(self._logical.as_nullable(False))

    def nullable(self) -> DataType:
        """Return the type with NULL."""
        return data_type_of(self._logical.as_nullable(True))

    def bridged_to(self, conversion_cls: str) -> DataType:
        """Return the type itself: values are Python objects whatever class of Java is named."""
        return self

    @property
    def logical(self) -> LogicalType:
        """Return the type as the planner knows it."""
        return self._logical

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self._logical == other._logical

    def __hash__(self) -> int:
        return hash(self._logical)

    def __str__(self) -> str:
        return str(self._logical)

    def __repr__(self) -> str:
        return str(self._logical)


class RowField:
    """A named field of a row type."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        self.name = name
        self.data_type = data_type
        self.description = description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and self._logical() == other._logical()

    def __hash__(self) -> int:
        return hash(self._logical())

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type})"

    def _logical(self) -> logical.RowField:
        return logical.RowField(self.name, logical_type_of(self.data_type), self.description)


class RowType(DataType):
    """A row of named fields."""

    _logical: logical.RowType

    @property
    def fields(self) -> list[RowField]:
        """Return the fields."""
        return [RowField(field.name, data_type_of(field.type), field.description) for field in self._logical.fields]

    def field_names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self._logical.names)

    def field_types(self) -> list[DataType]:
        """Return the types of the fields."""
        return [data_type_of(of) for of in self._logical.types]

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self._logical.fields)

    def __getitem__(self, key: str | int) -> RowField:
        if isinstance(key, int):
            return self.fields[key]
        for field in self.fields:
            if field.name == key:
                return field
        raise KeyError(f"The row has no field {key!r}; its fields are {', '.join(self.field_names())}.")


class ListViewType(DataType):
    """A list in the accumulator of an aggregate function."""

    def __init__(self, element_type: DataType) -> None:
        super().__init__(logical.ArrayType(element_type.logical))
        self._element_type = element_type


class MapViewType(DataType):
    """A map in the accumulator of an aggregate function."""

    def __init__(self, key_type: DataType, value_type: DataType) -> None:
        super().__init__(logical.MapType(key_type.logical, value_type.logical))
        self._key_type, self._value_type = key_type, value_type


def data_type_of(of: LogicalType) -> DataType:
    """Return a logical type with PyFlink's methods."""
    return RowType(of) if isinstance(of, logical.RowType) else DataType(of)


def logical_type_of(of: DataType | LogicalType | str | type) -> LogicalType:
    """Return the logical type of a data type, of a type written as in SQL, or of a Python class."""
    match of:
        case DataType():
            return of.logical
        case LogicalType():
            return of
        case str():
            return parsed_type(of)
        case type():
            from flott.table._types.inference import type_of_hint

            return type_of_hint(of)
    raise ProgramError(f"{of!r} is not a data type. Expected DataTypes.INT(), or text such as 'INT'.")


def parsed_type(text: str) -> LogicalType:
    """Return the type that SQL text names, such as ``ARRAY<INT> NOT NULL``."""
    from flott.table._sql.type_names import parse_type

    return parse_type(text)


# --- intervals -------------------------------------------------------------------------------------------------------


class Resolution:
    """A unit of an interval, with its number of digits."""

    class IntervalUnit(Enum):
        """Units, from the finest."""

        SECOND = 0
        MINUTE = 1
        HOUR = 2
        DAY = 3
        MONTH = 4
        YEAR = 5

    def __init__(self, unit: Resolution.IntervalUnit, precision: int = -1) -> None:
        self._unit = unit
        self._precision = precision

    @property
    def unit(self) -> Resolution.IntervalUnit:
        """Return the unit."""
        return self._unit

    @property
    def precision(self) -> int:
        """Return the number of digits; -1 if it has none."""
        return self._precision


_MONTHS = (Resolution.IntervalUnit.MONTH, Resolution.IntervalUnit.YEAR)


def _interval(upper: Resolution, lower: Resolution | None) -> LogicalType:
    least = upper if lower is None else lower
    if (upper.unit in _MONTHS) != (least.unit in _MONTHS) or upper.unit.value < least.unit.value:
        raise ProgramError(f"There is no interval from {upper.unit.name} to {least.unit.name}.")
    text = f"INTERVAL {upper.unit.name}" + ("" if lower is None else f" TO {lower.unit.name}")
    if upper.unit in _MONTHS:
        return logical.YearMonthIntervalType(text=text)
    return logical.DayTimeIntervalType(text=text)


class DataTypes:
    """All data types of tables. Each method returns a type that may hold NULL unless ``nullable=False``."""

    _unlimited: ClassVar[int] = logical.UNLIMITED

    @staticmethod
    def NULL() -> DataType:
        """Return the type of NULL alone."""
        return DataType(logical.NULL)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """Return text of a fixed length."""
        return DataType(logical.CharType(length, nullable=nullable))

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """Return text up to a length."""
        return DataType(logical.VarCharType(length, nullable=nullable))

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Return text of any length."""
        return DataType(logical.STRING.as_nullable(nullable))

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """Return truth values."""
        return DataType(logical.BOOLEAN.as_nullable(nullable))

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        """Return bytes of a fixed length."""
        return DataType(logical.BinaryType(length, nullable=nullable))

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """Return bytes up to a length."""
        return DataType(logical.VarBinaryType(length, nullable=nullable))

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Return bytes of any length."""
        return DataType(logical.BYTES.as_nullable(nullable))

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """Return decimal numbers of so many digits, ``scale`` of them behind the point."""
        if not 1 <= precision <= logical.MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
            raise ProgramError(f"DECIMAL({precision}, {scale}) is not possible: 1 <= precision <= 38, scale up to it.")
        return DataType(logical.DecimalType(precision, scale, nullable=nullable))

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """Return integers of 8 bits."""
        return DataType(logical.TINYINT.as_nullable(nullable))

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """Return integers of 16 bits."""
        return DataType(logical.SMALLINT.as_nullable(nullable))

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """Return integers of 32 bits."""
        return DataType(logical.INT.as_nullable(nullable))

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """Return integers of 64 bits."""
        return DataType(logical.BIGINT.as_nullable(nullable))

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """Return floating-point numbers of 32 bits."""
        return DataType(logical.FLOAT.as_nullable(nullable))

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """Return floating-point numbers of 64 bits."""
        return DataType(logical.DOUBLE.as_nullable(nullable))

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """Return days."""
        return DataType(logical.DATE.as_nullable(nullable))

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """Return times of day."""
        return DataType(logical.TimeType(precision, nullable=nullable))

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """Return dates with a time of day, of no time zone."""
        return DataType(logical.TimestampType(precision, nullable=nullable))

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:
        """Return points in time."""
        return DataType(logical.LocalZonedTimestampType(precision, nullable=nullable))

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        """Return points in time."""
        return DataType(logical.LocalZonedTimestampType(precision, nullable=nullable))

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """Return sequences of elements."""
        return DataType(logical.ArrayType(logical_type_of(element_type), nullable=nullable))

    @staticmethod
    def LIST_VIEW(element_type: DataType) -> ListViewType:
        """Return a list in an accumulator."""
        return ListViewType(element_type)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """Return values by key."""
        key, value = logical_type_of(key_type), logical_type_of(value_type)
        return DataType(logical.MapType(key, value, nullable=nullable))

    @staticmethod
    def MAP_VIEW(key_type: DataType, value_type: DataType) -> MapViewType:
        """Return a map in an accumulator."""
        return MapViewType(key_type, value_type)

    @staticmethod
    def MULTISET(element_type: DataType, nullable: bool = True) -> DataType:
        """Return elements with the number of times each is there."""
        return DataType(logical.MultisetType(logical_type_of(element_type), nullable=nullable))

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> RowType:
        """Return rows of fields; fields given as types alone are called f0, f1 and so on."""
        fields = [
            one if isinstance(one, RowField) else RowField(f"f{position}", one)
            for position, one in enumerate(row_fields)
        ]
        return RowType(logical.RowType(tuple(field._logical() for field in fields), nullable=nullable))

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:
        """Return a named field of a row."""
        return RowField(name, data_type, description)

    @staticmethod
    def BITMAP(nullable: bool = True) -> DataType:
        """Return sets of integers of 32 bits."""
        return DataType(logical.BITMAP.as_nullable(nullable))

    @staticmethod
    def RAW() -> DataType:
        """Return Python objects that SQL passes on without looking at them."""
        return DataType(logical.RawType("object"))

    @staticmethod
    def SECOND(precision: int = 6) -> Resolution:
        """Return seconds, as a unit of an interval."""
        return Resolution(Resolution.IntervalUnit.SECOND, precision)

    @staticmethod
    def MINUTE() -> Resolution:
        """Return minutes, as a unit of an interval."""
        return Resolution(Resolution.IntervalUnit.MINUTE)

    @staticmethod
    def HOUR() -> Resolution:
        """Return hours, as a unit of an interval."""
        return Resolution(Resolution.IntervalUnit.HOUR)

    @staticmethod
    def DAY(precision: int = 2) -> Resolution:
        """Return days, as a unit of an interval."""
        return Resolution(Resolution.IntervalUnit.DAY, precision)

    @staticmethod
    def MONTH() -> Resolution:
        """Return months, as a unit of an interval."""
        return Resolution(Resolution.IntervalUnit.MONTH)

    @staticmethod
    def YEAR(precision: int = 2) -> Resolution:
        """Return years, as a unit of an interval."""
        return Resolution(Resolution.IntervalUnit.YEAR, precision)

    @staticmethod
    def INTERVAL(upper_resolution: Resolution, lower_resolution: Resolution | None = None) -> DataType:
        """Return lengths of time, of months or of milliseconds."""
        return DataType(_interval(upper_resolution, lower_resolution))


__getattr__ = names_of(__name__)
