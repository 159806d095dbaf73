"""Types of records and state, at PyFlink's path. Re-exports only."""

from flott.common.typeinfo._basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    VariadicTupleTypeInfo,
)
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._infer import TypeHint
from flott.common.typeinfo._records import (
    DataclassTypeInfo,
    NamedTupleTypeInfo,
    RecordTypeInfo,
    TypedDictTypeInfo,
)
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DataclassTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "NamedTupleTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RecordTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeHint",
    "TypeInformation",
    "TypedDictTypeInfo",
    "Types",
    "VariadicTupleTypeInfo",
]
