"""Keys that are lists, dicts or sets, made immutable and hashable. Imports nothing.

PyFlink accepts every key that can be pickled. A frozen list is still a list and equals one, so a program that asks for
its current key gets what its selector returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def _refuse(self: object, *arguments: object, **named: object) -> NoReturn:
    raise TypeError("A key does not change. Copy it first, with list(key) or dict(key).")


class FrozenList(list[Any]):
    """A list as a key."""

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenList, (list(self),)


class FrozenDict(dict[Any, Any]):
    """A dict as a key. The order of its items does not matter."""

    pop = popitem = clear = update = setdefault = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenDict, (dict(self),)


def frozen(key: Any) -> Any:
    """Return a key with all mutable collections in it frozen. What is hashable stays as it is.

    >>> frozen(["a", {"b": [1]}]) == ["a", {"b": [1]}]
    True
    >>> len({frozen([1, 2]), frozen([1, 2])})
    1
    """
    kind = key.__class__
    if kind is list:
        return FrozenList(map(frozen, key))
    if kind is dict:
        return FrozenDict({name: frozen(value) for name, value in key.items()})
    if kind is set:
        return frozenset(key)
    if kind is bytearray:
        return bytes(key)
    if kind is tuple:
        return tuple(map(frozen, key))
    return key


def freezing(select: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a key selector whose keys are frozen."""

    def select_frozen(value: Any) -> Any:
        return frozen(select(value))

    return select_frozen


def is_hashable(key: Any) -> bool:
    """Return whether a key can be looked up as it is."""
    try:
        hash(key)
    except TypeError:
        return False
    return True
