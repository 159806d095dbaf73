"""What a type is: a frozen value that brings batches of records to the declared type. Runs in tasks, on every record.

    conform ──► _matches        one C-speed pass over the batch: is everything already of the type?
            └─► _convert        no: convert what may be converted, whole columns at a time where that is possible
                └─► _admit      one value: itself, its conversion, or Rejected

``_matches`` may be pessimistic (False only sends the batch to ``_convert``), never optimistic.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from operator import is_
from types import NoneType
from typing import Any

from flott._absent import no_java_object
from flott.errors import TypeMismatchError

_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 60


class Rejected(Exception):
    """One value is not of a type. ``path`` leads to it from the record, outermost step first."""

    def __init__(self, value: Any, declared: TypeInformation, reason: str = "", path: str = ""):
        super().__init__(value, declared, reason, path)
        self.value, self.declared, self.reason, self.path = value, declared, reason, path

    def under(self, step: str) -> Rejected:
        """Return the same rejection seen from one level further out."""
        return Rejected(self.value, self.declared, self.reason, step + self.path)


class TypeInformation:
    """The type of the records of a stream or of a state. Made by the factories in ``Types``."""

    __slots__ = ()

    get_java_type_info = no_java_object("get_java_type_info")

    def need_conversion(self) -> bool:
        """Return False: records are Python objects all the way, and there is no other form to convert them to."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Return the object itself."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Return the object itself."""
        return obj

    def conform(self, values: list[Any]) -> list[Any]:
        """Return the batch with every record of this type: ``values`` itself if nothing had to be converted.

        None stands for null and is accepted everywhere. Raises ``TypeMismatchError`` for the first record that is
        neither of this type nor convertible to it without loss.
        """
        return values if self._matches(values) else self._convert(values)

    def _matches(self, values: Sequence[Any]) -> bool:
        """Return whether all values are of this type as they are."""
        expected = self._python_type()
        found = list(map(type, values))
        if found.count(expected) == len(found):
            return self._contents_match(values)
        kinds = set(found)
        if NoneType in kinds:
            kinds.remove(NoneType)
            values = [value for value in values if value is not None]
        return all(map(self._takes, kinds)) and self._contents_match(values)

    def _python_type(self) -> type:
        """Return the class of the values."""
        raise NotImplementedError

    def _takes(self, kind: type) -> bool:
        """Return whether values of this very class may stay as they are. Asked once per class and batch."""
        # Numpy's scalars are unwrapped even where they subclass Python's: they pickle ten times as large.
        return issubclass(kind, self._python_type()) and kind.__module__ != "numpy"

    def _contents_match(self, values: Sequence[Any]) -> bool:
        """Return whether values of the class, none null, are of the type in what the class does not tell (a range)."""
        return True

    def _convert(self, values: list[Any]) -> list[Any]:
        converted: list[Any] = []
        for index, value in enumerate(values):
            try:
                converted.append(self._admit(value))
            except Rejected as rejected:
                raise TypeMismatchError(self._complaint(rejected), index) from None
        return values if all(map(is_, values, converted)) else converted

    def _admit(self, value: Any) -> Any:
        """Return the value, or what it converts to; raises ``Rejected``."""
        if value is None:
            return None
        value = unwrap_numpy(value)
        if self._takes(type(value)):
            return self._admit_contents(value)
        return self._convert_one(value)

    def _admit_contents(self, value: Any) -> Any:
        """Return one value of the right class, not null: itself or its conversion."""
        if self._contents_match((value,)):
            return value
        raise Rejected(value, self)

    def _convert_one(self, value: Any) -> Any:
        """Return one value of another class, converted."""
        raise Rejected(value, self)

    def _complaint(self, rejected: Rejected) -> str:
        found = f"found {_shortened.repr(rejected.value)} of type {_name(type(rejected.value))}"
        reason = f" ({rejected.reason})" if rejected.reason else ""
        if not rejected.path:
            return f"A record is not of its declared type: {found}, declared {self!r}{reason}."
        return (
            f"A record is not of its declared type: at {rejected.path} {found}, "
            f"expected {rejected.declared!r}{reason}; declared {self!r}."
        )


def unwrap_numpy(value: Any) -> Any:
    """Return a numpy scalar as Python's own, a numpy array as a list. Goes by name: numpy need not be installed."""
    if type(value).__module__ != "numpy":
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
