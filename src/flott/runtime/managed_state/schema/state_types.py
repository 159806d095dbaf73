"""The types that are declared for one state, and what becomes of values that were saved with others. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.datastream.state._descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from flott.errors import StateMigrationError, TypeMismatchError
from flott.runtime.managed_state.files.column_codec import plain_values
from flott.runtime.managed_state.schema.evolution import Convert, Incompatible, Same, evolve, same_layout
from flott.runtime.managed_state.schema.fitting import fits
from flott.runtime.managed_state.schema.type_schema import Json, describe, schema_of

#: What makes values of the declared type of a batch of saved ones.
ConvertValues = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Migration:
    """A function of the program's that makes values of a new type of those of a former one."""

    function: Callable[[Any], Any]
    from_type: TypeInformation | None = None  #: None: whichever it was

    def concerns(self, old: Json | None) -> bool:
        """Return whether values saved with this schema are for the function."""
        return self.from_type is None or same_layout(schema_of(self.from_type), old)


@dataclass(frozen=True)
class StateTypes:
    """What is declared about one state. A type of None: pickled."""

    value: TypeInformation | None = None  #: of a value, of an element of a list, of a value in a map
    map_key: TypeInformation | None = None
    migrations: tuple[Migration, ...] = ()
    #: Set for state that an operator keeps by itself: what it is, in words. The type is that of a stream, which was
    #: enforced where its records were made, or was only said (of an accumulator): values are not held against it.
    own: str | None = None

    @staticmethod
    def of(descriptor: StateDescriptor) -> StateTypes:
        """Return what a descriptor declares."""
        migrations = tuple(Migration(*migration) for migration in descriptor.get_migrations())
        match descriptor:
            case ListStateDescriptor():
                return StateTypes(descriptor.elem_type_info, None, migrations)
            case MapStateDescriptor():
                return StateTypes(descriptor.value_type_info, descriptor.key_type_info, migrations)
        return StateTypes(descriptor.type_info, None, migrations)

    @property
    def way_out(self) -> str:
        """Return what a program can do that wants other types than those of its state."""
        if self.own is not None:
            return "give the operator another uid, and it begins without state."
        return "say with set_migration() of its descriptor how the new values are made of the saved ones."


def conversion(what: str, old: Json | None, types: StateTypes) -> Convert | None:
    """Return what becomes of saved values; None: nothing. Raise ``StateMigrationError`` if they cannot be converted.

    ``what`` names the state in messages.
    """
    if not same_layout(old, schema_of(types.value)):
        for migration in types.migrations:
            if migration.concerns(old):
                return Convert(_migrating(what, migration, old, types.value))
    return _checked(what, old, evolve(old, types.value), types)


def key_conversion(what: str, old: Json | None, types: StateTypes) -> Convert | None:
    """Return the same for the keys of maps."""
    return _checked(f"{what}, in its map keys,", old, evolve(old, types.map_key), types)


def _checked(
    what: str, old: Json | None, verdict: Same | Convert | Incompatible, types: StateTypes
) -> Convert | None:
    match verdict:
        case Incompatible():
            raise StateMigrationError(f"{what} cannot be restored: {verdict}. Keep the former type, or {types.way_out}")
        case Convert() if types.own is not None and old is not None:
            return Convert(_wary(old, verdict), verdict.rewrites)
        case Convert():
            return verdict
    return None


def _wary(old: Json, convert: Convert) -> ConvertValues:
    """Return the conversion of values that were not checked: those of another type stay as they are, or are refused."""

    def function(values: list[Any]) -> list[Any]:
        fitting = _which_fit(old, values)
        if all(fitting):
            return convert.function(values)
        if convert.rewrites:
            misfit = fitting.index(False)
            raise TypeMismatchError(f"{values[misfit]!r} was saved as {describe(old)}, which it is not.", misfit)
        converted = iter(convert.function(list(compress(values, fitting))))
        return [next(converted) if fit else value for value, fit in zip(values, fitting, strict=True)]

    return function


def _which_fit(schema: Json, values: list[Any]) -> list[bool]:
    fitting = [fits(schema, value) for value in plain_values(schema, values)]
    if all(fitting):
        return fitting
    # One that does not fit keeps all others from being written as their type says.
    return [fits(schema, plain_values(schema, [value])[0]) for value in values]


def _migrating(
    what: str, migration: Migration, old: Json | None, declared: TypeInformation | None
) -> ConvertValues:
    def convert(values: list[Any]) -> list[Any]:
        converted = []
        for value in values if old is None else plain_values(old, values):
            try:
                converted.append(migration.function(value))
            except Exception as error:
                raise StateMigrationError(
                    f"{what} cannot be restored: its migration function raised {type(error).__name__}: {error}, for the"
                    f" saved value {value!r}."
                ) from error
        return converted if declared is None else declared.conform(converted)

    return convert
