"""``Types``: the names under which programs ask for types."""

from __future__ import annotations

from collections.abc import Iterable

from flott.common.typeinfo._basic import BasicTypeInfo, PickledBytesTypeInfo, SqlTimeTypeInfo
from flott.common.typeinfo._collections import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._type_information import TypeInformation


class Types:
    """Factories of types. Where one takes another type, a type hint does as well: ``Types.LIST(str)``.

    >>> Types.TUPLE([Types.STRING(), Types.INT()])
    TupleTypeInfo(String, Integer)
    >>> Types.TUPLE([Types.STRING(), Types.DOUBLE()]).conform([("a", 1)])
    [('a', 1.0)]
    """

    @staticmethod
    def of(hint: object) -> TypeInformation:
        """Return the type that a Python type hint stands for. Only in Flott.

        >>> Types.of(tuple[str, list[float]])
        TupleTypeInfo(String, ListTypeInfo<Double>)
        """
        return type_of(hint)

    @staticmethod
    def STRING() -> TypeInformation:
        """str"""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> TypeInformation:
        """int of 8 bits"""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """bool"""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> TypeInformation:
        """int of 16 bits"""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> TypeInformation:
        """int of 32 bits"""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> TypeInformation:
        """int of 64 bits"""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> TypeInformation:
        """float, rounded to 32 bits"""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """float"""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> TypeInformation:
        """str of one character"""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """int of any size"""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """decimal.Decimal"""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def INSTANT() -> TypeInformation:
        """flott.common.Instant"""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """datetime.date"""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """datetime.time"""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """datetime.datetime"""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any object: the type of a stream for which none was declared"""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Iterable[TypeHint]) -> RowTypeInfo:
        """Row with fields of these types"""
        return RowTypeInfo(map(type_of, field_types))

    @staticmethod
    def ROW_NAMED(field_names: Iterable[str], field_types: Iterable[TypeHint]) -> RowTypeInfo:
        """Row with fields of these names and types"""
        return RowTypeInfo(map(type_of, field_types), field_names)

    @staticmethod
    def TUPLE(field_types: Iterable[TypeHint]) -> TupleTypeInfo:
        """tuple with fields of these types"""
        return TupleTypeInfo(map(type_of, field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeHint) -> TypeInformation:
        """list of numbers, booleans or characters; bytes if the elements are ``Types.BYTE()``"""
        return PrimitiveArrayTypeInfo(type_of(element_type))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeHint) -> TypeInformation:
        """list of basic values"""
        return BasicArrayTypeInfo(type_of(element_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeHint) -> TypeInformation:
        """list of values of any one type"""
        return ObjectArrayTypeInfo(type_of(element_type))

    @staticmethod
    def MAP(key_type_info: TypeHint, value_type_info: TypeHint) -> TypeInformation:
        """dict"""
        return MapTypeInfo(type_of(key_type_info), type_of(value_type_info))

    @staticmethod
    def LIST(element_type_info: TypeHint) -> TypeInformation:
        """list"""
        return ListTypeInfo(type_of(element_type_info))
