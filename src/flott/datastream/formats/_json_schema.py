"""Derives the type of rows from a JSON schema, as Flink does. Pure; runs on the driver.

    object → ROW_NAMED      array → OBJECT_ARRAY, or TUPLE if ``items`` is a list      string → STRING
    number, integer → BIG_DEC      boolean → BOOLEAN      null with another type → that type
    string with format date, time, date-time → SQL_DATE, SQL_TIME, SQL_TIMESTAMP
    string with contentEncoding base64 → PRIMITIVE_ARRAY(BYTE)
"""

from __future__ import annotations

import json
from typing import Any

from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.errors import ProgramError

_STRING_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}
_REFUSED = ("allOf", "anyOf", "not", "extends", "disallow")


def type_of_json_schema(json_schema: str) -> TypeInformation:
    """Return the type that a JSON schema describes.

    >>> type_of_json_schema('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    RowTypeInfo(id: BigDecimal)
    """
    try:
        root = json.loads(json_schema)
    except ValueError as error:
        raise ProgramError(f"Expected a JSON schema, found {json_schema[:120]!r}: {error}.") from error
    found = _type_of(root, root, "<root>", ())
    if found is None:
        raise ProgramError("The JSON schema describes null only: describe an object.")
    return found


def _type_of(node: Any, root: Any, place: str, passed: tuple[str, ...]) -> TypeInformation | None:
    """Return the type of a node, None for null."""
    if not isinstance(node, dict):
        raise ProgramError(f"Expected a JSON schema at {place}, found {node!r}.")
    if refused := [word for word in _REFUSED if word in node]:
        raise ProgramError(f"The JSON schema has {refused[0]!r} at {place}: Flott needs one type. Use type_info(…).")
    types: list[TypeInformation | None] = []
    if "type" in node:
        words = node["type"] if isinstance(node["type"], list) else [node["type"]]
        types += [_of_word(word, node, root, place, passed) for word in words]
    elif isinstance(node.get("$ref"), str):
        reference = node["$ref"]
        if reference in passed:
            raise ProgramError(f"The JSON schema refers to itself at {place}: {reference}. Flott needs a finite type.")
        types.append(_type_of(_resolved(reference, root), root, reference, (*passed, reference)))
    if isinstance(node.get("oneOf"), list):
        types += [_type_of(each, root, f"{place}/oneOf", passed) for each in node["oneOf"]]
    some = list(dict.fromkeys(each for each in types if each is not None))
    if not types:
        raise ProgramError(f"The JSON schema has no type at {place}.")
    if len(some) > 1:
        raise ProgramError(f"The JSON schema has several types at {place}: only one, or one and null, is supported.")
    return some[0] if some else None


def _of_word(word: Any, node: dict[str, Any], root: Any, place: str, passed: tuple[str, ...]) -> TypeInformation | None:
    match word:
        case "null":
            return None
        case "boolean":
            return Types.BOOLEAN()
        case "number" | "integer":
            return Types.BIG_DEC()
        case "string" if "format" in node:
            return _STRING_FORMATS.get(node["format"], Types.STRING)()
        case "string" if node.get("contentEncoding", "base64") != "base64":
            raise ProgramError(f"Found the encoding {node['contentEncoding']!r} at {place}; Flott knows base64.")
        case "string":
            return Types.PRIMITIVE_ARRAY(Types.BYTE()) if "contentEncoding" in node else Types.STRING()
        case "object":
            return _object(node, root, place, passed)
        case "array":
            return _array(node, root, place, passed)
    raise ProgramError(f"Found the type {word!r} at {place}, which JSON schema does not have.")


def _object(node: dict[str, Any], root: Any, place: str, passed: tuple[str, ...]) -> TypeInformation:
    if node.get("additionalProperties") is True:
        raise ProgramError(f"The object at {place} allows additional properties: Flott needs to know all of them.")
    properties = node.get("properties", {})
    types = [_or_any(_type_of(each, root, f"{place}/{name}", passed)) for name, each in properties.items()]
    return Types.ROW_NAMED(list(properties), types)


def _array(node: dict[str, Any], root: Any, place: str, passed: tuple[str, ...]) -> TypeInformation:
    items = node.get("items")
    if isinstance(items, dict):
        return Types.OBJECT_ARRAY(_or_any(_type_of(items, root, f"{place}/items", passed)))
    if isinstance(items, list) and node.get("additionalItems") is not True:
        return Types.TUPLE([_or_any(_type_of(each, root, f"{place}/items", passed)) for each in items])
    raise ProgramError(f"The array at {place} does not describe its items: add 'items'.")


def _or_any(found: TypeInformation | None) -> TypeInformation:
    return Types.PICKLED_BYTE_ARRAY() if found is None else found  # always null


def _resolved(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        raise ProgramError(f"Found the reference {reference!r}; only one within the same document is supported.")
    node = root
    for step in reference[1:].strip("/").split("/") if reference != "#" else ():
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    if node is None:
        raise ProgramError(f"The JSON schema has no {reference}.")
    return node
