"""The keyed side of an operator's input: select the key, make it current. Task side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from flott.common._frozen import freezing, frozen, is_hashable
from flott.common.typeinfo import TypeInformation
from flott.datastream.functions._callables import as_key_selector
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.key_groups import REMEMBERED_KEYS
from flott.runtime.operators.operator import OperatorContext


class KeyedInput:
    """How one input of an operator finds keys, and the cell that holds the current one."""

    __slots__ = ("_may_freeze", "current", "select")

    def __init__(self, select: Callable[[Any], Any], current: CurrentKey):
        self.select = select
        self.current = current
        self._may_freeze = True

    @staticmethod
    def of(context: OperatorContext, index: int) -> KeyedInput | None:
        """Return the keyed side of an input, or None if that input is not keyed."""
        keys = context.operator.node.keys
        key = keys[index] if index < len(keys) else None
        if key is None or context.keyed_state is None:
            return None
        select = key.getter or as_key_selector(key.selector)
        if key.in_place and key.key_type is not None:  # otherwise the exchange has checked it
            select = _checking(select, key.key_type)
        return KeyedInput(select, context.keyed_state.current)

    def select_in(self, values: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the selector for a batch. Its first key decides whether keys are frozen."""
        if self._may_freeze and values:
            with suppress(Exception):  # a selector that fails here fails again where it is reported
                if not is_hashable(self.select(values[0])):
                    self.select, self._may_freeze = freezing(self.select), False
        return self.select

    def setting_key(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return ``call`` with the record's key made current first."""
        select, current = self.select, self.current

        def with_key(value: Any) -> Any:
            key = select(value)
            current.key = key if is_hashable(key) else frozen(key)
            return call(value)

        return with_key


def _checking(select: Callable[[Any], Any], key_type: TypeInformation) -> Callable[[Any], Any]:
    """Return ``select`` with each key that is new checked against its declared type."""
    known: set[Any] = set()

    def checked(value: Any) -> Any:
        key = select(value)
        if key not in known:
            if len(known) >= REMEMBERED_KEYS:
                known.clear()
            key_type.conform([key])
            known.add(key)
        return key

    return checked
