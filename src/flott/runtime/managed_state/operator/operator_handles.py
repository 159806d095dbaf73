"""ListState and BroadcastState over the operator state of a subtask. Task side.

Values are checked against the declared type when they are put: that is rare, and the user's line is then the culprit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from flott.common.typeinfo import TypeInformation
from flott.datastream.state._broadcast import BroadcastState, ReadOnlyBroadcastState
from flott.datastream.state._descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from flott.datastream.state._handles import ListState
from flott.datastream.state._operator_state import OperatorStateStore
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.managed_state.operator.operator_shares import Mode
from flott.runtime.managed_state.operator.operator_state import NamedState, OperatorState
from flott.runtime.managed_state.schema.state_types import StateTypes


class TaskOperatorStateStore(OperatorStateStore):
    """Gives out handles to the operator state of one subtask."""

    def __init__(self, state: OperatorState):
        self._state = state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, Mode.SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, Mode.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        self._check(state_descriptor, MapStateDescriptor)
        named = self._state.named(state_descriptor.name, Mode.BROADCAST, StateTypes.of(state_descriptor))
        return SubtaskBroadcastState(named, state_descriptor)

    def _list(self, descriptor: ListStateDescriptor, mode: Mode) -> ListState[Any]:
        self._check(descriptor, ListStateDescriptor)
        return SubtaskListState(self._state.named(descriptor.name, mode, StateTypes.of(descriptor)), descriptor)

    def _check(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> None:
        if not isinstance(descriptor, kind):
            raise ProgramError(
                f"Operator {self._state.owner} asks for operator state with {descriptor!r}, expected a {kind.__name__}."
            )
        if descriptor.ttl_config is not None:
            raise ProgramError(
                f"The operator state {descriptor.name!r} of operator {self._state.owner} asks for a time to live, which"
                " only keyed state has. Remove enable_time_to_live()."
            )


class SubtaskListState(ListState[Any]):
    """The subtask's own list."""

    __slots__ = ("_named", "_type")

    def __init__(self, named: NamedState, descriptor: ListStateDescriptor):
        self._named = named
        self._type = _Declared(descriptor, descriptor.elem_type_info)

    def get(self) -> Iterable[Any]:
        # A copy: the caller may add to the state while it iterates.
        return list(self._named.items)

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        self._named.items.extend(self._type.conform(list(values)))
        self._named.changed = True

    def update(self, values: Iterable[Any]) -> None:
        self._named.items[:] = self._type.conform(list(values))
        self._named.changed = True

    def clear(self) -> None:
        self.update(())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class SubtaskBroadcastState(BroadcastState[Any, Any]):
    """A map that the program keeps the same in every subtask."""

    __slots__ = ("_items", "_key_type", "_named", "_value_type")

    def __init__(self, named: NamedState, descriptor: MapStateDescriptor):
        self._named = named
        self._items: dict[Any, Any] = named.items
        self._key_type = _Declared(descriptor, descriptor.key_type_info)
        self._value_type = _Declared(descriptor, descriptor.value_type_info)

    def get(self, key: Any) -> Any:
        return self._items.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._items

    def items(self) -> Iterable[tuple[Any, Any]]:
        # Copies here and below: the caller may change the state while it iterates.
        return list(self._items.items())

    def keys(self) -> Iterable[Any]:
        return list(self._items)

    def values(self) -> Iterable[Any]:
        return list(self._items.values())

    def is_empty(self) -> bool:
        return not self._items

    def put(self, key: Any, value: Any) -> None:
        self.put_all({key: value})

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        keys = self._key_type.conform(list(dict_value))
        self._items.update(zip(keys, self._value_type.conform(list(dict_value.values())), strict=True))
        self._named.changed = True

    def remove(self, key: Any) -> None:
        if key in self._items:
            del self._items[key]
            self._named.changed = True

    def clear(self) -> None:
        self._items.clear()
        self._named.changed = True


class ReadOnlyBroadcastView(ReadOnlyBroadcastState[Any, Any]):
    """Broadcast state for the stream that must not change it. Asked once or more for every record: no copies."""

    __slots__ = ("_items", "_name")

    def __init__(self, named: NamedState, name: str):
        self._items: dict[Any, Any] = named.items
        self._name = name

    def get(self, key: Any) -> Any:
        return self._items.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._items

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._items.items()

    def keys(self) -> Iterable[Any]:
        return self._items.keys()

    def values(self) -> Iterable[Any]:
        return self._items.values()

    def is_empty(self) -> bool:
        return not self._items

    def __contains__(self, key: Any) -> bool:
        return key in self._items

    def put(self, key: Any, value: Any) -> NoReturn:
        """Refused, as is everything below."""
        self._refuse()

    def put_all(self, dict_value: Mapping[Any, Any]) -> NoReturn:
        self._refuse()

    def remove(self, key: Any) -> NoReturn:
        self._refuse()

    def clear(self) -> NoReturn:
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse()

    def __delitem__(self, key: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ProgramError(
            f"The broadcast state {self._name!r} can only be read here: it must be the same in every subtask, and other"
            " subtasks do not see this record. Change it in process_broadcast_element()."
        )


class _Declared:
    """The type declared for a part of a state, if any."""

    __slots__ = ("_name", "_type")

    def __init__(self, descriptor: StateDescriptor, declared: TypeInformation | None):
        self._name = descriptor.name
        self._type = declared

    def conform(self, values: list[Any]) -> list[Any]:
        if self._type is None:
            return values
        try:
            return self._type.conform(values)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"State {self._name!r}: {error}", error.index) from None
