"""TYPEOF names types."""

from __future__ import annotations

import pytest

from flott.table._functions.function import SignatureError
from flott.table._functions.introspection import complete_text
from flott.table._types.logical import (
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    ArrayType,
    LocalZonedTimestampType,
    MapType,
    row_type,
)

from .calls import called, result_type


def test_typeof_names_the_type_of_its_argument() -> None:
    assert called("TYPEOF", 1, types=(INT.as_nullable(False),)) == "INT NOT NULL"
    assert called("TYPEOF", None, types=(ArrayType(STRING),)) == "ARRAY<STRING>"
    assert called("TYPEOF", "x", True, types=(STRING, BOOLEAN), column=False) == "VARCHAR(2147483647)"


def test_the_complete_text_of_nested_types_has_no_short_words() -> None:
    of = row_type({"a": MapType(STRING, BYTES), "t": LocalZonedTimestampType(3, nullable=False)})
    assert complete_text(of) == (
        "ROW<`a` MAP<VARCHAR(2147483647), VARBINARY(2147483647)>, `t` TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL>"
    )


def test_typeof_takes_a_constant_as_its_second_argument() -> None:
    with pytest.raises(SignatureError):
        result_type("TYPEOF", INT, BOOLEAN)
