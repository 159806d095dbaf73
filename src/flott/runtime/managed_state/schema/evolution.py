"""Schema evolution: what becomes of saved values when the program declares another type for them. Pure.

    Same           they are values of the new type as they are
    Convert        this function makes them so
    Incompatible   nothing does: which field, what it was, what it is to be, and why not

Rules, applied at every depth; ``docs/concepts/schema-evolution.md`` explains them:

- Fields of rows with names, dataclasses, named tuples and typed dicts go by name, in any order, whatever the record is
  called and whichever of these it is. One that is gone is dropped; a new one takes its default, or null where it is a
  row's or annotated with None, or is left out where a typed dict allows that.
- Tuples and rows without names go by position, and have as many fields as before.
- Numbers widen: byte, short, int, long, big-int, big-decimal; float, double; whole numbers also to float and double,
  where a number that would lose digits is refused; a char to a string.
- What was pickled becomes what is declared if every value is of that type; what was declared may be pickled again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from flott.common.typeinfo._basic import PickledBytesTypeInfo
from flott.common.typeinfo._collections import ExternalTypeInfo, ListTypeInfo, MapTypeInfo
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._infer import PICKLED, type_of
from flott.common.typeinfo._records import RecordTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row, restore_row
from flott.errors import TypeMismatchError
from flott.runtime.managed_state.schema.record_classes import find_class, import_class, is_faithful
from flott.runtime.managed_state.schema.type_schema import RECORDS, Json, describe, node_of, schema_of


@dataclass(frozen=True)
class Same:
    """The values are of the new type already."""


@dataclass(frozen=True)
class Convert:
    """The values become those of the new type by this function, which takes a batch.

    It raises ``TypeMismatchError`` for a value that cannot: it was pickled and is not of the declared type, or it is a
    whole number too large for a float.
    """

    function: Callable[[list[Any]], list[Any]]
    rewrites: bool = True  #: False: what files hold stays as it is, only the classes of records were not found


@dataclass(frozen=True)
class Incompatible:
    """The values cannot become those of the new type."""

    path: str  #: leads to the field, from the value: ``.address.street``; empty: the value itself
    old: str
    new: str
    reason: str

    def __str__(self) -> str:
        field = f"its field {self.path[1:] if self.path.startswith('.') else self.path}" if self.path else "it"
        return f"{field} was saved as {self.old} and is declared as {self.new} now: {self.reason}"


Evolution = Same | Convert | Incompatible


def evolve(old: Json | None, declared: TypeInformation | None) -> Evolution:
    """Return what becomes of values saved with a schema when this type is declared for them. None: pickled."""
    new_type = PICKLED if declared is None else declared
    if old is None:
        return Same() if schema_of(declared) is None else Convert(new_type.conform)
    try:
        step = _step(old, new_type)
    except _Refused as refused:
        return refused.verdict
    rewrites = _layout(old) != _layout(node_of(new_type))
    if step is None:
        return Convert(new_type.conform) if rewrites and _holds(old, {"pickled"}) else Same()
    return Convert(lambda values: new_type.conform(_convert_all(step, values)), rewrites)


def _convert_all(step: _Step, values: list[Any]) -> list[Any]:
    converted = []
    for index, value in enumerate(values):
        try:
            converted.append(step(value))
        except _Lossy as lossy:
            raise TypeMismatchError(f"The whole number {lossy} would lose digits as a float.", index) from None
    return converted


def evolve_key(old: Json | None, declared: TypeInformation | None) -> Same | Incompatible:
    """Return the same for keys, which must stay what they are: their bytes say which subtask they belong to."""
    match evolve(old, declared):
        case Incompatible() as verdict:
            return verdict
        case Convert() if old is not None and _holds(old, RECORDS):
            reason = "the class and the fields of a key must stay as they are, because they decide where it belongs"
            return Incompatible("", describe(old), describe(schema_of(declared)), reason)
    return Same()  # a number that is wider now is equal to what it was


def same_layout(old: Json | None, new: Json | None) -> bool:
    """Return whether values of two schemas are written alike and read as the same; None: pickled."""
    return old is new or (old is not None and new is not None and _layout(old) == _layout(new))


# ---------------------------------------------------------------------------------------------------------------------
# One value. A step takes a value that is not null and gives what becomes of it; None stands for the value itself.
# ---------------------------------------------------------------------------------------------------------------------

_Step = Callable[[Any], Any]

_WHOLE = ("byte", "short", "int", "long", "big-int", "big-decimal")
_WIDER: dict[str, set[str]] = {
    **{narrow: set(_WHOLE[place + 1 :]) for place, narrow in enumerate(_WHOLE)},
    "float": {"double"},
    "char": {"string"},
}
for _narrow in _WHOLE[:-1]:
    _WIDER[_narrow] |= {"float", "double"}


class _Lossy(Exception):
    """A whole number that is no float."""


def _as_float(value: int) -> float:
    try:
        converted = float(value)
    except OverflowError:
        raise _Lossy(value) from None
    if converted != value:
        raise _Lossy(value)
    return converted


_WIDENED: dict[str, _Step] = {"float": _as_float, "double": _as_float, "big-decimal": Decimal}


class _Refused(Exception):
    """A step that does not exist; ``under`` leads to it from further out."""

    def __init__(self, verdict: Incompatible):
        super().__init__(verdict)
        self.verdict = verdict

    def under(self, place: str) -> _Refused:
        return _Refused(dataclasses.replace(self.verdict, path=place + self.verdict.path))


def _refuse(old: Json, new: TypeInformation, reason: str) -> _Refused:
    return _Refused(Incompatible("", describe(old), describe(node_of(new)), reason))


def _nullable(step: _Step | None) -> _Step | None:
    return None if step is None else lambda value: None if value is None else step(value)


def _step(old: Json, new: TypeInformation) -> _Step | None:
    """Return how a value gets from a schema to a type, nulls included."""
    return _nullable(_bare_step(old, new))


def _bare_step(old: Json, new: TypeInformation) -> _Step | None:
    if isinstance(new, ExternalTypeInfo):
        return _bare_step(old, new._type_info)
    kind, target = old["type"], node_of(new)["type"]
    if kind == "pickled":
        return None  # the whole value is held against its type in the end
    if isinstance(new, PickledBytesTypeInfo) or target == "pickled":
        return _without_type(old)
    if isinstance(new, RowTypeInfo) and kind == "row" and (new._field_names is None or not _is_named(old)):
        return _positional_row(old, new)
    if kind in RECORDS and isinstance(new, RowTypeInfo | RecordTypeInfo):
        if not _is_named(old) or (isinstance(new, RowTypeInfo) and new._field_names is None):
            raise _refuse(old, new, "records become each other by the names of their fields, and a row has none")
        return _record(old, new)
    if kind == target:
        match new:
            case ListTypeInfo() if "element" in old:
                made = new._python_type()
                element = _inside("[]", old["element"], new.elem_type)
                return None if element is None else lambda value: made(map(element, value))
            case MapTypeInfo():
                return _map(old, new)
            case TupleTypeInfo():
                return _tuple(old, new)
        return None
    if target in _WIDER.get(kind, ()):
        return None if kind == "float" else _WIDENED.get(target)
    raise _refuse(old, new, _why_not(kind, target))


def _why_not(kind: str, target: str) -> str:
    if kind in _WIDER.get(target, ()):
        return "that would narrow it"
    return "one does not become the other"


def _inside(place: str, old: Json, new: TypeInformation) -> _Step | None:
    try:
        return _step(old, new)
    except _Refused as refused:
        raise refused.under(place) from None


def _map(old: Json, new: MapTypeInfo) -> _Step | None:
    keys = _inside(".key", old["key"], new._key_type_info)
    values = _inside("[]", old["value"], new._value_type_info)
    if keys is None and values is None:
        return None
    of_key, of_value = keys or _itself, values or _itself
    return lambda value: {of_key(key): of_value(mapped) for key, mapped in value.items()}


def _itself(value: Any) -> Any:
    return value


def _fields_by_position(old: Json, new: TypeInformation, types: Sequence[TypeInformation]) -> list[_Step] | None:
    fields = old["fields"]
    if len(fields) != len(types):
        raise _refuse(old, new, f"fields without names go by position, and there were {len(fields)}, not {len(types)}")
    steps = [
        _inside(f"[{place}]", field["type"], field_type)
        for place, (field, field_type) in enumerate(zip(fields, types, strict=True))
    ]
    return [step or _itself for step in steps] if any(steps) else None


def _tuple(old: Json, new: TupleTypeInfo) -> _Step | None:
    steps = _fields_by_position(old, new, new.get_field_types())
    if steps is None:
        return None
    return lambda value: tuple(step(part) for step, part in zip(steps, value, strict=True))


def _positional_row(old: Json, new: RowTypeInfo) -> _Step | None:
    steps = _fields_by_position(old, new, new.get_field_types())
    names = new._field_names
    if steps is None and (names is None or not _is_named(old)):
        return None  # a row without the names gets them when it is held against its type
    chosen = steps or [_itself] * len(old["fields"])

    def convert(row: Row) -> Row:
        values = [step(part) for step, part in zip(chosen, row, strict=True)]
        return restore_row(names or row._fields, values, row.get_row_kind().value)

    return convert


def _is_named(node: Json) -> bool:
    return all("name" in field for field in node["fields"])


# ---------------------------------------------------------------------------------------------------------------------
# Records: fields by name
# ---------------------------------------------------------------------------------------------------------------------

_ABSENT: Any = object()


def _record(old: Json, new: RowTypeInfo | RecordTypeInfo) -> _Step | None:
    names = new.get_field_names()
    former = {field["name"]: field for field in old["fields"]}
    fields = {field["name"]: field for field in node_of(new)["fields"]}
    steps: list[tuple[str, _Step, Callable[[], Any]]] = []
    changed = False
    for name, field_type in zip(names, new.get_field_types(), strict=True):
        step: _Step | None = None
        fill = _default_of(new, fields[name])
        if name in former:
            step = _inside(f".{name}", former[name]["type"], field_type)
            if former[name].get("required") is False and fill is None:
                raise _added(name, field_type, "absent in some records")
        elif fill is None:
            raise _added(name, field_type, "absent")
        changed = changed or step is not None
        steps.append((name, step or _itself, fill or _never))
    same = not changed and _layout(old) == _layout(node_of(new))
    if same and _is_found(old, new):
        return None
    rebuild = _rebuild(tuple(former), steps, new)
    if not same or isinstance(new, RowTypeInfo):
        return rebuild
    kind = new.get_record_class()
    return lambda record: record if type(record) is kind else rebuild(record)


def _added(name: str, field_type: TypeInformation, found: str) -> _Refused:
    reason = "a new field needs a default, or None as an alternative in its annotation"
    return _Refused(Incompatible(f".{name}", found, describe(node_of(field_type)), reason))


def _never() -> Any:
    return None  # of a field that every record has


def _default_of(new: TypeInformation, field: Json) -> Callable[[], Any] | None:
    """Return what makes the value of a field that a record lacks; None if nothing does."""
    name = field["name"]
    if isinstance(new, RowTypeInfo):
        return lambda: None
    assert isinstance(new, RecordTypeInfo)
    if field.get("required") is False:
        return lambda: _ABSENT
    if field.get("default"):
        kind: Any = new.get_record_class()
        if not dataclasses.is_dataclass(kind):
            return lambda: kind._field_defaults[name]
        declared = next(one for one in dataclasses.fields(kind) if one.name == name)
        if declared.default is not dataclasses.MISSING:
            return lambda: declared.default
        assert declared.default_factory is not dataclasses.MISSING
        return declared.default_factory
    return (lambda: None) if field.get("optional") else None


def _layout(node: Json) -> Any:
    """Return what decides how values are written, and as what they are read."""
    match node["type"]:
        case "list" | "tuple-of" as kind:
            return kind, _layout(node["element"])
        case "map":
            return "map", _layout(node["key"]), _layout(node["value"])
        case kind if "fields" in node:
            owner = None if kind == "typed-dict" else node.get("class")
            fields = [(field.get("name"), field.get("required"), _layout(field["type"])) for field in node["fields"]]
            return kind, owner, fields
        case kind:
            return kind


def _is_found(old: Json, new: RowTypeInfo | RecordTypeInfo) -> bool:
    """Return whether saved records are read as those of the new type."""
    if old["type"] in ("row", "typed-dict"):
        return True
    return isinstance(new, RecordTypeInfo) and find_class(old) is new.get_record_class()


def _rebuild(
    former: tuple[str, ...], steps: list[tuple[str, _Step, Callable[[], Any]]], new: RowTypeInfo | RecordTypeInfo
) -> _Step:
    make = _maker(new)

    def convert(record: Any) -> Any:
        found = _read(record, former)
        fields = {name: step(found[name]) if name in found else fill() for name, step, fill in steps}
        return make(fields, record)

    return convert


def _read(record: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a record, whichever form it was read in."""
    if isinstance(record, Row):
        return dict(zip(record._fields or names, record._values, strict=False))
    if isinstance(record, dict):
        return record
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


def _maker(new: RowTypeInfo | RecordTypeInfo) -> Callable[[dict[str, Any], Any], Any]:
    """Return what makes a record of its fields and the former record."""
    if isinstance(new, RowTypeInfo):
        return _make_row
    kind: Any = new.get_record_class()
    node = node_of(new)
    if node["type"] == "typed-dict":
        return lambda fields, record: {name: value for name, value in fields.items() if value is not _ABSENT}
    if node["type"] == "named-tuple":
        return lambda fields, record: kind._make(fields.values())
    if is_faithful(kind, node):
        return lambda fields, record: _make_instance(kind, fields)
    accepted = {field.name for field in dataclasses.fields(kind) if field.init}
    return lambda fields, record: kind(**{name: value for name, value in fields.items() if name in accepted})


def _make_row(fields: dict[str, Any], record: Any) -> Row:
    kind = record.get_row_kind().value if isinstance(record, Row) else 0
    return restore_row(tuple(fields), list(fields.values()), kind)


def _make_instance(kind: Any, fields: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)  # as restoring does: without calling the class
    return made


# ---------------------------------------------------------------------------------------------------------------------
# From a declared type to none
# ---------------------------------------------------------------------------------------------------------------------


def _without_type(old: Json) -> _Step | None:
    """Return values for which nothing is declared any more: records become instances of their class as it is now."""
    kind = old["type"]
    if kind in ("list", "tuple-of"):
        made: Any = list if kind == "list" else tuple
        element = _inside("[]", old["element"], PICKLED)
        return None if element is None else lambda value: made(map(element, value))
    if kind == "map":
        return _map(old, MapTypeInfo(PICKLED, PICKLED))
    if kind == "tuple":
        return _tuple(old, TupleTypeInfo([PICKLED] * len(old["fields"])))
    if kind == "row":
        return _positional_row(old, RowTypeInfo([PICKLED] * len(old["fields"])))
    if kind not in ("dataclass", "named-tuple") or find_class(old) is not None:
        return None
    found = import_class(old)
    if found is None:
        raise _refuse(old, PICKLED, f"the class {old['class']} is not to be found any more; declare the new one")
    return _record(old, _record_type(old, found))


def _record_type(old: Json, found: type) -> RecordTypeInfo:
    declared = type_of(found)
    if not isinstance(declared, RecordTypeInfo):
        raise _refuse(old, declared, f"{old['class']} has no fields any more")
    return declared


def _holds(node: Json, kinds: Collection[str]) -> bool:
    """Return whether a part of a type is of one of these kinds."""
    if node["type"] in kinds:
        return True
    parts = [node[part] for part in ("element", "key", "value") if part in node]
    parts += [field["type"] for field in node.get("fields", ())]
    return any(_holds(part, kinds) for part in parts)
