"""Functions on fields of a record that the API creates itself: ``key_by(0)``, ``key_by("name")``, ``project(2, 0)``.

They are sent to tasks and run per record, so they are small, picklable classes and not closures.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flott.common.typeinfo._composite import TupleTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.datastream.functions._aggregations import _field_of
from flott.datastream.functions._basic import KeySelector
from flott.datastream.functions._callables import validate_function


def as_selector(key_selector: object, method: str) -> Callable[[Any], Any]:
    """Return a checked key selector. A position or a field name selects the field."""
    if isinstance(key_selector, int) and not isinstance(key_selector, bool):
        return operator.itemgetter(key_selector)  # runs in C, and can be pickled
    if isinstance(key_selector, str):
        return NamedField(key_selector, method)
    validate_function(key_selector, KeySelector, method)
    return key_selector  # type: ignore[return-value]  # checked above: a KeySelector or a callable


def field_getter(
    selector: Callable[[Any], Any], record_type: TypeInformation | None
) -> Callable[[Any], Any] | None:
    """Return a getter that runs in C, if a selector reads one field of records that are declared to be tuples.

    Otherwise return None. Without a declared type a record may be anything, and an error of the selector should show
    the program's own line.

    >>> from flott.common import Types
    >>> field_getter(lambda record: record[1], Types.TUPLE([Types.STRING(), Types.INT()]))
    operator.itemgetter(1)
    """
    if not isinstance(record_type, TupleTypeInfo) or not isinstance(selector, FunctionType):
        return None
    steps = [step for step in dis.get_instructions(selector) if step.opname not in ("RESUME", "NOP")]
    shape = [step.opname for step in steps]
    if selector.__code__.co_argcount != 1 or shape != ["LOAD_FAST", "LOAD_CONST", "BINARY_SUBSCR", "RETURN_VALUE"]:
        return None
    position, width = steps[1].argval, len(record_type.get_field_types())
    is_field = steps[0].arg == 0 and type(position) is int and -width <= position < width
    return operator.itemgetter(position) if is_field else None


class NamedField:
    """Reads one field by name. The kind of the records is determined from the first one.

    >>> NamedField("city", "key_by")({"city": "Berlin"})
    'Berlin'
    """

    __slots__ = ("_get", "method", "name")

    def __init__(self, name: str, method: str):
        self.name = name
        self.method = method
        self._get: Callable[[Any], Any] | None = None

    def __call__(self, value: Any) -> Any:
        if self._get is None:
            self._get = _field_of(value, self.name, self.method).get
        return self._get(value)

    def __eq__(self, other: object) -> bool:
        return (
            (self.name, self.method) == (other.name, other.method) if isinstance(other, NamedField) else NotImplemented
        )

    def __hash__(self) -> int:
        return hash((self.name, self.method))

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedField, (self.name, self.method)  # each task determines it again

    def __repr__(self) -> str:
        return f"NamedField({self.name!r})"


class Projection:
    """Returns some fields of a record as a tuple, in the given order.

    >>> Projection(2, 0)(("a", "b", "c"))
    ('c', 'a')
    """

    __slots__ = ("indexes",)

    def __init__(self, *indexes: int):
        self.indexes = indexes

    def __call__(self, value: Any) -> tuple[Any, ...]:
        return tuple([value[index] for index in self.indexes])

    def __eq__(self, other: object) -> bool:
        return self.indexes == other.indexes if isinstance(other, Projection) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.indexes)

    def __repr__(self) -> str:
        return f"Projection{self.indexes}"
