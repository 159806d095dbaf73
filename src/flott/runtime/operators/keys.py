"""The keyed side of an operator's input: select the key, make it current. Task side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.datastream.functions._callables import as_key_selector
from flott.runtime.operators.operator import OperatorContext
from flott.runtime.state.handles import CurrentKey


class KeyedInput:
    """How one input of an operator finds keys, and the cell that holds the current one."""

    __slots__ = ("current", "select")

    def __init__(self, select: Callable[[Any], Any], current: CurrentKey):
        self.select = select
        self.current = current

    @staticmethod
    def of(context: OperatorContext, index: int) -> KeyedInput | None:
        """The keyed side of an input, or None if that input is not keyed."""
        keys = context.operator.node.keys
        key = keys[index] if index < len(keys) else None
        if key is None or context.keyed_state is None:
            return None
        return KeyedInput(as_key_selector(key.selector), context.keyed_state.current)

    def setting_key(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``call`` with the record's key made current first."""
        select, current = self.select, self.current

        def with_key(value: Any) -> Any:
            current.key = select(value)
            return call(value)

        return with_key
