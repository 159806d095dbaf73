"""Which type a column gets for values of a declared type, when a sink creates its table. Pure."""

from __future__ import annotations

from flott.common.typeinfo import TypeInformation, Types
from flott.common.typeinfo._basic import BasicType, BasicTypeInfo
from flott.datastream.connectors.jdbc._address import Dialect

#: PostgreSQL, MySQL, SQLite.
_BASIC = {
    BasicType.STRING: ("TEXT", "LONGTEXT", "TEXT"),
    BasicType.BYTE: ("SMALLINT", "TINYINT", "INTEGER"),
    BasicType.BOOLEAN: ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
    BasicType.SHORT: ("SMALLINT", "SMALLINT", "INTEGER"),
    BasicType.INT: ("INTEGER", "INTEGER", "INTEGER"),
    BasicType.LONG: ("BIGINT", "BIGINT", "INTEGER"),
    BasicType.FLOAT: ("REAL", "FLOAT", "REAL"),
    BasicType.DOUBLE: ("DOUBLE PRECISION", "DOUBLE", "REAL"),
    BasicType.CHAR: ("CHAR(1)", "CHAR(1)", "TEXT"),
    BasicType.BIG_INT: ("NUMERIC", "DECIMAL(65, 0)", "NUMERIC"),
    BasicType.BIG_DEC: ("NUMERIC", "DECIMAL(65, 30)", "TEXT"),
    BasicType.INSTANT: ("TIMESTAMP WITH TIME ZONE", "DATETIME(6)", "TEXT"),
}
_OTHERS = {
    Types.SQL_DATE(): ("DATE", "DATE", "TEXT"),
    Types.SQL_TIME(): ("TIME", "TIME(6)", "TEXT"),
    Types.SQL_TIMESTAMP(): ("TIMESTAMP", "DATETIME(6)", "TEXT"),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): ("BYTEA", "LONGBLOB", "BLOB"),
}
_ORDER = (Dialect.POSTGRES, Dialect.MYSQL, Dialect.SQLITE)
#: MySQL cannot index a text without a length.
_KEY_TEXT = "VARCHAR(255)"


def column_type(dialect: Dialect, declared: TypeInformation, in_key: bool) -> str | None:
    """Return the type; nested values are stored as JSON.

    >>> column_type(Dialect.POSTGRES, Types.LONG(), in_key=True)
    'BIGINT'
    """
    position = _ORDER.index(dialect)
    if isinstance(declared, BasicTypeInfo):
        if in_key and dialect is Dialect.MYSQL and declared._basic_type is BasicType.STRING:
            return _KEY_TEXT
        return _BASIC[declared._basic_type][position]
    for known, kinds in _OTHERS.items():
        if declared == known:
            return kinds[position]
    if type(declared).__name__ in ("MapTypeInfo", "RowTypeInfo", "DataclassTypeInfo", "TypedDictTypeInfo"):
        return ("JSONB", "JSON", "TEXT")[position]
    return None
