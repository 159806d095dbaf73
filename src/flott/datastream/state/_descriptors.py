"""Descriptors: the name and type by which a function requests its state.

They are values, compared by content and picklable. State in a savepoint is matched by the descriptor's name. The type
is optional, and the state is then pickled; PyFlink requires it. It is one of ``Types`` or a type hint, which type
checkers understand: ``ValueStateDescriptor("count", int)`` describes a ``ValueState[int]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._types import Types
from flott.datastream.functions._basic import AggregateFunction, ReduceFunction
from flott.errors import ProgramError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar  # needed only by type checkers

    from flott.common.typeinfo._type_information import TypeInformation
    from flott.datastream.state._ttl import StateTtlConfig

    T = DefaultedTypeVar("T", default=Any)
    K = DefaultedTypeVar("K", default=Any)
    V = DefaultedTypeVar("V", default=Any)
    IN = DefaultedTypeVar("IN", default=Any)
    OUT = DefaultedTypeVar("OUT", default=Any)
else:
    T, K, V, IN, OUT = map(TypeVar, ("T", "K", "V", "IN", "OUT"))


class StateDescriptor:
    """A name, a type and optionally a time to live. Use the subclass for the kind of state."""

    def __init__(self, name: str, type_info: TypeHint | None = None):
        if not name or not isinstance(name, str):
            raise ValueError(f"The name of a state is a text of at least one character, found {name!r}.")
        self._name = name
        self._type_info = _declared(name, type_info)
        self._ttl_config: StateTtlConfig | None = None
        self._migrations: tuple[tuple[Callable[[Any], Any], TypeInformation | None], ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the state, also in checkpoints."""
        return self._name

    @property
    def type_info(self) -> TypeInformation | None:
        """Return the type of the whole state; ``None``: pickled."""
        return self._type_info

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """Return the time to live; ``None``: unlimited."""
        return self._ttl_config

    def get_name(self) -> str:
        return self._name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries of this state expire."""
        self._ttl_config = ttl_config

    def set_migration(self, function: Callable[[Any], Any], from_type: TypeHint | None = None) -> None:
        """Set the function that converts values of another type in a savepoint to this type. Only in Flott.

        When state is restored that was saved with another type, the function is called with each saved value (of a list
        with
        each element, of a map with each value) and returns the new one. Saved records are passed as a ``Row`` with
        names, typed
        dicts as a dict, so that classes of the former program are not needed. With ``from_type``, the function is only
        for
        state that was saved with this type. With several such functions, a program can start from the savepoints of
        several
        former versions. Without a function, values are converted if that is possible without loss, and otherwise
        refused.

        >>> descriptor = ValueStateDescriptor("age", int)
        >>> descriptor.set_migration(int, from_type=str)
        """
        if not callable(function):
            raise TypeError(f"The migration of state {self._name!r} is a function of one value, found {function!r}.")
        self._migrations = (*self._migrations, (function, _declared(self._name, from_type)))

    def get_migrations(self) -> tuple[tuple[Callable[[Any], Any], TypeInformation | None], ...]:
        """Return the functions of ``set_migration`` with their types, in the order in which they were set."""
        return self._migrations

    def _content(self) -> tuple[Any, ...]:
        return self._name, self._type_info, self._ttl_config, self._migrations

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateDescriptor) or type(self) is not type(other):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        # Only the name: the time to live may be set later, and types or functions may not be hashable.
        return hash((type(self).__name__, self._name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self.type_info})"


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Requests one value per key.

    >>> ValueStateDescriptor("count").get_name()
    'count'
    """

    @overload
    def __init__(self, name: str, value_type_info: type[T]) -> None: ...

    @overload
    def __init__(self: ValueStateDescriptor[Any], name: str, value_type_info: TypeHint | None = None) -> None: ...

    def __init__(self, name: str, value_type_info: TypeHint | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Requests one list per key. The type is that of an element."""

    @overload
    def __init__(self, name: str, elem_type_info: type[T]) -> None: ...

    @overload
    def __init__(self: ListStateDescriptor[Any], name: str, elem_type_info: TypeHint | None = None) -> None: ...

    def __init__(self, name: str, elem_type_info: TypeHint | None = None) -> None:
        self._elem_type_info = _declared(name, elem_type_info)
        super().__init__(name, None if self._elem_type_info is None else Types.LIST(self._elem_type_info))

    @property
    def elem_type_info(self) -> TypeInformation | None:
        """Return the type of an element; ``None``: pickled."""
        return self._elem_type_info


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Requests one map per key. The types are those of its keys and values; each is optional."""

    @overload
    def __init__(self, name: str, key_type_info: type[K], value_type_info: type[V]) -> None: ...

    @overload
    def __init__(
        self: MapStateDescriptor[Any, Any],
        name: str,
        key_type_info: TypeHint | None = None,
        value_type_info: TypeHint | None = None,
    ) -> None: ...

    def __init__(
        self, name: str, key_type_info: TypeHint | None = None, value_type_info: TypeHint | None = None
    ) -> None:
        self._key_type_info = _declared(name, key_type_info)
        self._value_type_info = _declared(name, value_type_info)
        type_info = None
        if self._key_type_info is not None and self._value_type_info is not None:
            type_info = Types.MAP(self._key_type_info, self._value_type_info)
        super().__init__(name, type_info)

    @property
    def key_type_info(self) -> TypeInformation | None:
        """Return the type of the map's keys; ``None``: pickled."""
        return self._key_type_info

    @property
    def value_type_info(self) -> TypeInformation | None:
        """Return the type of the map's values; ``None``: pickled."""
        return self._value_type_info

    def _content(self) -> tuple[Any, ...]:
        return *super()._content(), self._key_type_info, self._value_type_info


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Requests one value per key, combined with a reduce function.

    >>> ReducingStateDescriptor("longest", max).get_reduce_function()(2, 3)
    3
    """

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        type_info: TypeHint | None = None,
    ):
        super().__init__(name, type_info)
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError(
                f"The reducing state {name!r} needs a ReduceFunction or a callable of two values, "
                f"found {reduce_function!r}."
            )
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction[T] | Callable[[T, T], T]:
        """Return the function as it was given."""
        return self._reduce_function

    def _content(self) -> tuple[Any, ...]:
        return *super()._content(), self._reduce_function


class AggregatingStateDescriptor(StateDescriptor, Generic[IN, OUT]):
    """Requests one accumulator per key for an aggregate function. The type is that of the accumulator."""

    def __init__(
        self,
        name: str,
        agg_function: AggregateFunction[IN, Any, OUT],
        state_type_info: TypeHint | None = None,
    ):
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError(
                f"The aggregating state {name!r} needs an instance of flott.datastream.functions.AggregateFunction, "
                f"found {agg_function!r}."
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[IN, Any, OUT]:
        """Return the function as it was given."""
        return self._agg_function

    def _content(self) -> tuple[Any, ...]:
        return *super()._content(), self._agg_function


def _declared(name: str, type_info: TypeHint | None) -> TypeInformation | None:
    """Return the type of a state, or of a part of it. Refuse other arguments."""
    try:
        return None if type_info is None else type_of(type_info)
    except ProgramError as error:
        raise TypeError(f"The type of the state {name!r} is not one: {error}") from None
