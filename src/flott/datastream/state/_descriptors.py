"""Descriptors: the name and type by which a function asks for its state.

Values: compared by content and picklable. A state is recognised in a savepoint by its descriptor's name. The type may
be left out, and the state is then pickled; PyFlink requires it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flott.common.typeinfo._types import Types
from flott.datastream.functions._basic import AggregateFunction, ReduceFunction

if TYPE_CHECKING:
    from flott.common.typeinfo._type_information import TypeInformation
    from flott.datastream.state._ttl import StateTtlConfig


class StateDescriptor:
    """A name, a type and, if asked for, a time to live. Use the subclass for the kind of state."""

    def __init__(self, name: str, type_info: TypeInformation | None = None):
        if not name or not isinstance(name, str):
            raise ValueError(f"The name of a state is a text of at least one character, found {name!r}.")
        self._name = name
        self._type_info = type_info
        self._ttl_config: StateTtlConfig | None = None

    @property
    def name(self) -> str:
        """What the state is called, here and in checkpoints."""
        return self._name

    @property
    def type_info(self) -> TypeInformation | None:
        """The type of the whole state; ``None``: pickled."""
        return self._type_info

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """How long entries live; ``None``: for ever."""
        return self._ttl_config

    def get_name(self) -> str:
        return self._name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries of this state expire."""
        self._ttl_config = ttl_config

    def _content(self) -> tuple[Any, ...]:
        return self._name, self._type_info, self._ttl_config

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateDescriptor) or type(self) is not type(other):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        # The name alone: the time to live may still be set, and types or functions need not be hashable.
        return hash((type(self).__name__, self._name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self.type_info})"


class ValueStateDescriptor(StateDescriptor):
    """Asks for one value per key.

    >>> ValueStateDescriptor("count").get_name()
    'count'
    """

    def __init__(self, name: str, value_type_info: TypeInformation | None = None):
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Asks for one list per key; the type is that of an element."""

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None):
        super().__init__(name, None if elem_type_info is None else Types.LIST(elem_type_info))
        self._elem_type_info = elem_type_info

    @property
    def elem_type_info(self) -> TypeInformation | None:
        """The type of an element; ``None``: pickled."""
        return self._elem_type_info


class MapStateDescriptor(StateDescriptor):
    """Asks for one map per key; the types are those of its keys and values, each of which may be left out."""

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ):
        type_info = None
        if key_type_info is not None and value_type_info is not None:
            type_info = Types.MAP(key_type_info, value_type_info)
        super().__init__(name, type_info)
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info

    @property
    def key_type_info(self) -> TypeInformation | None:
        """The type of the map's keys; ``None``: pickled."""
        return self._key_type_info

    @property
    def value_type_info(self) -> TypeInformation | None:
        """The type of the map's values; ``None``: pickled."""
        return self._value_type_info

    def _content(self) -> tuple[Any, ...]:
        return *super()._content(), self._key_type_info, self._value_type_info


class ReducingStateDescriptor(StateDescriptor):
    """Asks for one value per key, combined with a reduce function.

    >>> ReducingStateDescriptor("longest", max).get_reduce_function()(2, 3)
    3
    """

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
    ):
        super().__init__(name, type_info)
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError(
                f"The reducing state {name!r} needs a ReduceFunction or a callable of two values, "
                f"found {reduce_function!r}."
            )
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction[Any] | Callable[[Any, Any], Any]:
        """The function as it was given."""
        return self._reduce_function

    def _content(self) -> tuple[Any, ...]:
        return *super()._content(), self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Asks for one accumulator per key, fed by an aggregate function; the type is that of the accumulator."""

    def __init__(
        self,
        name: str,
        agg_function: AggregateFunction[Any, Any, Any],
        state_type_info: TypeInformation | None = None,
    ):
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError(
                f"The aggregating state {name!r} needs an instance of flott.datastream.functions.AggregateFunction, "
                f"found {agg_function!r}."
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[Any, Any, Any]:
        """The function as it was given."""
        return self._agg_function

    def _content(self) -> tuple[Any, ...]:
        return *super()._content(), self._agg_function
