"""Functions of JSON. Clauses of a call, such as NULL ON EMPTY, are arguments behind the others.

Each clause is a symbol; the one of RETURNING is followed by a NULL of the type, one with DEFAULT by the default.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flott.errors import ProgramError
from flott.table._expressions.expression import Call, Expression, Literal
from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._functions.json_paths import PathMissing, json_path, parsed_json
from flott.table._functions.json_text import JsonText, json_text, plain_json
from flott.table._functions.signatures import ANYTHING, TEXT, by_row, by_value, define
from flott.table._types import logical
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import BOOLEAN, STRING, ArrayType, Family, LogicalType, NullType, SymbolType

# --- clauses ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clauses:
    """The clauses of a call: the keyword of each, positions of defaults, and the type after RETURNING."""

    keywords: dict[str, str]
    defaults: dict[str, int]
    returning: LogicalType | None
    plain: int  #: the number of arguments in front of them

    def keyword(self, clause: str, default: str) -> str:
        """Return the keyword of a clause."""
        return self.keywords.get(clause, default)


def clauses_of(types: Sequence[LogicalType]) -> Clauses:
    """Return the clauses among the arguments."""
    first = next((i for i, of in enumerate(types) if isinstance(of, SymbolType)), len(types))
    keywords: dict[str, str] = {}
    defaults: dict[str, int] = {}
    returning = None
    for index in range(first, len(types)):
        of = types[index]
        if not isinstance(of, SymbolType):
            continue
        if of.symbol == "RETURNING":
            returning = types[index + 1]
            continue
        for clause in ("ON EMPTY", "ON ERROR", "ON NULL", "WRAPPER"):
            if of.symbol.endswith(clause):
                keywords[clause] = of.symbol.removesuffix(clause).strip()
                if keywords[clause] == "DEFAULT":
                    defaults[clause] = index + 1
        if of.symbol.startswith("RAW"):
            keywords["RAW"] = of.symbol.removeprefix("RAW")
    return Clauses(keywords, defaults, returning, first)


def mark_nested(name: str, arguments: Sequence[Expression]) -> list[Expression]:
    """Return the arguments of JSON_OBJECT or JSON_ARRAY with a symbol that names those which are JSON already."""
    nested = [
        str(i)
        for i, one in enumerate(arguments)
        if isinstance(one, Call) and one.function in ("JSON_OBJECT", "JSON_ARRAY", "JSON")
    ]
    if name not in ("JSON_OBJECT", "JSON_ARRAY") or not nested:
        return list(arguments)
    symbol = f"RAW {' '.join(nested)}"
    return [*arguments, Literal(SymbolType(symbol, nullable=False), symbol)]


# --- IS JSON ---------------------------------------------------------------------------------------------------------

_KINDS: dict[str, tuple[type, ...]] = {
    "": (object,),
    " VALUE": (object,),
    " OBJECT": (dict,),
    " ARRAY": (list,),
    " SCALAR": (str, int, Decimal, bool, type(None)),
}


def _is_json(kinds: tuple[type, ...], negated: bool) -> Any:
    def test(text: str | None) -> bool:
        try:
            found = text is not None and isinstance(parsed_json(text), kinds)
        except ValueError:
            found = False
        return found is not negated

    return by_row(test, strict=False)


def _tests() -> list[Function]:
    return [
        define(
            f"IS{negation} JSON{kind}", (TEXT,), BOOLEAN, _is_json(kinds, bool(negation)), nullable=False,
            family="json",
            syntax=f"string IS{negation} JSON{kind}",
            description=f"Returns whether the string is {'not ' if negation else ''}JSON"
            + (f" of the kind {kind.strip()}." if kind.strip() not in ("", "VALUE") else "."),
        )
        for negation in ("", " NOT")
        for kind, kinds in _KINDS.items()
    ]  # fmt: skip


# --- reading ---------------------------------------------------------------------------------------------------------


def _check_reading(call: CallArguments) -> Clauses:
    clauses = clauses_of(call.types)
    if clauses.plain != 2 or not all(TEXT.takes(of) for of in call.types[:2]):
        raise call.refuse("(STRING, path)")
    if call.is_literal[1:2] == (True,) and isinstance(call.literals[1], str):
        json_path(call.literals[1])  # a wrong path is found before anything runs
    return clauses


def _exists_type(call: CallArguments) -> LogicalType:
    _check_reading(call)
    return BOOLEAN


def _value_type(call: CallArguments) -> LogicalType:
    returning = _check_reading(call).returning
    allowed = (Family.CHARACTER, Family.BOOLEAN, Family.INTEGER, Family.APPROXIMATE)
    if returning is not None and returning.family not in allowed:
        raise call.refuse("RETURNING STRING, BOOLEAN, INTEGER or DOUBLE")
    return (returning or STRING).as_nullable()


def _query_type(call: CallArguments) -> LogicalType:
    clauses = _check_reading(call)
    returning = clauses.returning
    is_array = isinstance(returning, ArrayType) and returning.element.family is Family.CHARACTER
    if returning is not None and not is_array and returning.family is not Family.CHARACTER:
        raise call.refuse("RETURNING STRING or ARRAY<STRING>")
    if is_array and "EMPTY OBJECT" in clauses.keywords.values():
        raise call.refuse("no EMPTY OBJECT where an array is returned")
    return (returning or STRING).as_nullable()


def _nulls(call: CallArguments) -> tuple[LogicalType, ...] | None:
    """Return the types of arguments with an untyped NULL as text."""
    plain = clauses_of(call.types).plain
    if not any(isinstance(of, NullType) for of in call.types[:plain]):
        return None
    return tuple(STRING if isinstance(of, NullType) and i < plain else of for i, of in enumerate(call.types))


class _Failed:
    """What reading a document gave instead of a value."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _read(text: str, path: str) -> tuple[Any, bool]:
    """Return what a path leads to, or why it failed, and whether it is strict."""
    route = json_path(path)
    try:
        return route.read(parsed_json(text)), route.strict
    except PathMissing:
        return _Failed(f"The path {path!r} leads nowhere"), route.strict
    except ValueError as error:
        return _Failed(f"The text is not JSON: {error}"), route.strict


def _reading(call: KernelCall, read: Any) -> Datum:
    """Call a function with text and path of each row, and with the clauses."""
    clauses = clauses_of(call.types)
    inner = KernelCall(call.arguments[:2], call.types[:2], call.type, call.length, call.session)
    if not clauses.defaults:
        return by_value(lambda text, path: read(text, path, clauses, {}))(inner)
    names = list(clauses.defaults)
    columns = [call.column(clauses.defaults[name]).to_pylist() for name in names]
    texts, paths = call.column(0).to_pylist(), call.column(1).to_pylist()
    found = [
        None if text is None or path is None else read(text, path, clauses, dict(zip(names, row, strict=True)))
        for text, path, row in zip(texts, paths, zip(*columns, strict=True), strict=True)
    ]
    return pa.array(found, type=arrow_type(call.type))


def _exists(call: KernelCall) -> Datum:
    def read(text: str, path: str, clauses: Clauses, defaults: dict[str, Any]) -> bool | None:
        found, _ = _read(text, path)
        if not isinstance(found, _Failed):
            return found is not None
        behaviour = clauses.keyword("ON ERROR", "FALSE")
        if behaviour == "ERROR":
            raise ProgramError(f"JSON_EXISTS failed. {found.reason}.")
        return {"TRUE": True, "FALSE": False}.get(behaviour)

    return _reading(call, read)


def _value(call: KernelCall) -> Datum:
    of = call.type

    def read(text: str, path: str, clauses: Clauses, defaults: dict[str, Any]) -> Any:
        found, strict = _read(text, path)
        if not isinstance(found, _Failed):
            if found is None or (not strict and isinstance(found, dict | list)):
                return _instead("JSON_VALUE", "ON EMPTY", clauses, defaults, "The path leads to no value", of)
            if not isinstance(found, dict | list):
                converted = _converted(found, of)
                if not isinstance(converted, _Failed):
                    return converted
                found = converted
            else:
                found = _Failed("The path leads to an object or array, expected a single value")
        return _instead("JSON_VALUE", "ON ERROR", clauses, defaults, found.reason, of)

    return _reading(call, read)


def _instead(name: str, clause: str, clauses: Clauses, defaults: dict[str, Any], reason: str, of: LogicalType) -> Any:
    """Return what a clause says for an empty or failed result."""
    behaviour = clauses.keyword(clause, "NULL")
    if behaviour == "ERROR":
        raise ProgramError(f"{name} failed. {reason}.")
    if behaviour == "DEFAULT":
        default = defaults[clause]
        return None if default is None else _converted(default, of)
    if behaviour.startswith("EMPTY"):
        empty_array = behaviour == "EMPTY ARRAY" or behaviour == "EMPTY"
        return [] if isinstance(of, ArrayType) else "[]" if empty_array else "{}"
    return None


def _converted(value: Any, of: LogicalType) -> Any:
    """Return a scalar of JSON as a value of a type."""
    match of.family:
        case Family.CHARACTER:
            return value if isinstance(value, str) else json_text(value)
        case Family.BOOLEAN if isinstance(value, bool) or str(value).lower() in ("true", "false"):
            return value if isinstance(value, bool) else value.lower() == "true"
        case Family.INTEGER | Family.APPROXIMATE if not isinstance(value, bool):
            try:
                number = Decimal(str(value).strip())
            except ArithmeticError:
                return _Failed(f"{value!r} is not a number")
            if of.family is Family.APPROXIMATE:
                return float(number)
            bits = of.bits if isinstance(of, logical.IntegerType) else 64
            if number == number.to_integral_value() and -(1 << bits - 1) <= number < 1 << bits - 1:
                return int(number)
    return _Failed(f"{value!r} is not of the type {of}")


def _query(call: KernelCall) -> Datum:
    of = call.type

    def read(text: str, path: str, clauses: Clauses, defaults: dict[str, Any]) -> Any:
        found, strict = _read(text, path)
        if not isinstance(found, _Failed):
            found = _wrapped(found, clauses.keyword("WRAPPER", "WITHOUT ARRAY"))
            scalar = not isinstance(found, dict | list)
            if found is None or (scalar and not strict):
                return _instead("JSON_QUERY", "ON EMPTY", clauses, defaults, "The path leads to no value", of)
            if scalar:
                found = _Failed("The path leads to a single value, expected an object or array")
            elif not isinstance(of, ArrayType):
                return json_text(found)
            elif isinstance(found, list):
                return [one if one is None or isinstance(one, str) else json_text(one) for one in found]
            else:
                found = _Failed("The path leads to an object, expected an array")
        return _instead("JSON_QUERY", "ON ERROR", clauses, defaults, found.reason, of)

    return _reading(call, read)


def _wrapped(value: Any, wrapper: str) -> Any:
    if value is None or "WITHOUT" in wrapper:
        return value
    return value if "UNCONDITIONAL" not in wrapper and isinstance(value, list) else [value]


# --- writing ---------------------------------------------------------------------------------------------------------


def _written(call: CallArguments, pairs: bool) -> LogicalType:
    clauses = clauses_of(call.types)
    if pairs and (clauses.plain % 2 or not all(TEXT.takes(of) for of in call.types[: clauses.plain : 2])):
        raise call.refuse("(KEY name VALUE value, ...)")
    return STRING.as_nullable(False)


def _plain_columns(call: KernelCall, clauses: Clauses) -> list[list[Any]]:
    raw = {int(position) for position in clauses.keyword("RAW", "").split()}
    columns = []
    for index in range(clauses.plain):
        values, of = call.column(index).to_pylist(), call.types[index]
        if index in raw:
            columns.append([None if value is None else _raw(value) for value in values])
        else:
            columns.append([plain_json(value, of) for value in values])
    return columns


def _raw(text: str) -> JsonText | None:
    """Return JSON text in its plain form; text without anything is left out."""
    try:
        return JsonText(json_text(parsed_json(text))) if text.strip() else JsonText("")
    except ValueError as error:
        raise ProgramError(f"JSON() was called with {text!r}, which is not JSON: {error}.") from error


def _object(call: KernelCall) -> Datum:
    clauses = clauses_of(call.types)
    absent = clauses.keyword("ON NULL", "NULL") == "ABSENT"
    columns = _plain_columns(call, clauses)
    result = []
    for row in range(call.length):
        found: dict[str, Any] = {}
        for index in range(0, clauses.plain, 2):
            key, value = columns[index][row], columns[index + 1][row]
            if key is None:
                raise ProgramError("JSON_OBJECT was called with NULL as a key. Expected a string.")
            if not (value is None and absent) and not _is_nothing(value):
                found[key] = value
        result.append(json_text(found))
    return pa.array(result, type=pa.string())


def _json_array(call: KernelCall) -> Datum:
    clauses = clauses_of(call.types)
    absent = clauses.keyword("ON NULL", "ABSENT") == "ABSENT"
    columns = _plain_columns(call, clauses)
    result = []
    for row in range(call.length):
        values = [column[row] for column in columns]
        kept = [one for one in values if not (one is None and absent) and not _is_nothing(one)]
        result.append(json_text(kept))
    return pa.array(result, type=pa.string())


def _is_nothing(value: Any) -> bool:
    return isinstance(value, JsonText) and not value


def _string(call: KernelCall) -> Datum:
    of = call.types[0]
    found = [None if value is None else json_text(plain_json(value, of)) for value in call.column(0).to_pylist()]
    return pa.array(found, type=pa.string())


def _checked(text: str) -> str:
    _raw(text)
    return text


def json_quote(text: str) -> str:
    """Return a text as a JSON string, in ASCII."""
    return json.dumps(text).replace("/", "\\/")


def json_unquote(text: str) -> str:
    """Return the text of a JSON string; anything else stays as it is."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            found = json.loads(text)
            found.encode()
        except (ValueError, UnicodeError):
            return text
        return str(found)
    return text


FUNCTIONS: tuple[Function, ...] = (
    *_tests(),
    Function(
        "JSON_EXISTS", _exists_type, _exists, coerce=_nulls, may_fail=True, family="json",
        syntax="JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR])",
        description="Returns whether a path leads to a value.",
    ),
    Function(
        "JSON_VALUE", _value_type, _value, coerce=_nulls, may_fail=True, family="json",
        syntax="JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY] "
        "[{NULL | ERROR | DEFAULT value} ON ERROR])",
        description="Returns the single value that a path leads to.",
    ),
    Function(
        "JSON_QUERY", _query_type, _query, coerce=_nulls, may_fail=True, family="json",
        syntax="JSON_QUERY(json, path [RETURNING type] [{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} ARRAY WRAPPER] "
        "[{NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [... ON ERROR])",
        description="Returns the object or array that a path leads to, as JSON.",
    ),
    Function(
        "JSON_OBJECT", lambda call: _written(call, True), _object, coerce=_nulls, may_fail=True, family="json",
        syntax="JSON_OBJECT([KEY name VALUE value, ...] [{NULL | ABSENT} ON NULL])",
        description="Returns a JSON object of names and values.",
    ),
    Function(
        "JSON_ARRAY", lambda call: _written(call, False), _json_array, coerce=_nulls, may_fail=True, family="json",
        syntax="JSON_ARRAY([value, ...] [{NULL | ABSENT} ON NULL])",
        description="Returns a JSON array of values.",
    ),
    define(
        "JSON", (TEXT,), STRING, by_row(_checked), may_fail=True, family="json", syntax="JSON(json)",
        description="Puts JSON text into JSON_OBJECT or JSON_ARRAY as it is, not as a string.",
    ),
    define(
        "JSON_STRING", (ANYTHING,), STRING, _string, family="json", syntax="JSON_STRING(value)",
        description="Returns a value as JSON.",
    ),
    define(
        "JSON_QUOTE", (TEXT,), STRING, by_row(json_quote), family="json", syntax="JSON_QUOTE(string)",
        description="Returns the string as a JSON string, with quotes and escapes.",
    ),
    define(
        "JSON_UNQUOTE", (TEXT,), STRING, by_row(json_unquote), family="json", syntax="JSON_UNQUOTE(string)",
        description="Returns the text of a JSON string; other text stays as it is.",
    ),
)  # fmt: skip
