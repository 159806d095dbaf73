"""The types of an operator's states: what the program declares now, and what its files said. Task side.

A checkpoint may hold a state of another type than the program declares. What it holds is converted when the program
asks for the state, before the first record, and again whenever it was read anew from files written before; the next
file then holds all of it in the new form. So of the files of a key group, the last that names a table says of what type
everything in it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flott.common.typeinfo import TypeInformation
from flott.datastream.state._descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from flott.errors import StateMigrationError, TypeMismatchError
from flott.runtime.state.columns import plain_values
from flott.runtime.state.evolution import Convert, Incompatible, Same, evolve, evolve_key, same_layout
from flott.runtime.state.expiry import walk
from flott.runtime.state.header_spans import HeaderSpans
from flott.runtime.state.record_classes import holds_known_classes
from flott.runtime.state.schema import Json, schema_of
from flott.runtime.state.table_header import TableHeader
from flott.runtime.state.tables import ListTable, MapTable, ValueTable
from flott.runtime.state.ttl import state_name

if TYPE_CHECKING:
    from flott.runtime.state.keyed_state import KeyedState

#: So many entries are converted in one go.
_STEP = 4096


@dataclass(frozen=True)
class Migration:
    """A function of the program's that makes values of a new type of those of a former one."""

    function: Callable[[Any], Any]
    from_type: TypeInformation | None = None  #: None: whichever it was

    def concerns(self, old: Json | None) -> bool:
        """Whether values saved with this schema are for the function."""
        return self.from_type is None or same_layout(schema_of(self.from_type), old)


@dataclass(frozen=True)
class StateTypes:
    """What a program declares about one state. A type of None: pickled."""

    value: TypeInformation | None = None  #: of a value, of an element of a list, of a value in a map
    map_key: TypeInformation | None = None
    migrations: tuple[Migration, ...] = ()

    @staticmethod
    def of(descriptor: StateDescriptor) -> StateTypes:
        """What a descriptor declares."""
        migrations = tuple(Migration(*migration) for migration in descriptor.get_migrations())
        match descriptor:
            case ListStateDescriptor():
                return StateTypes(descriptor.elem_type_info, None, migrations)
            case MapStateDescriptor():
                return StateTypes(descriptor.value_type_info, descriptor.key_type_info, migrations)
        return StateTypes(descriptor.type_info, None, migrations)


#: What makes values of the declared type of a batch of saved ones.
Conversion = Callable[[list[Any]], list[Any]]


def conversion(what: str, old: Json | None, types: StateTypes) -> Convert | None:
    """What becomes of saved values; None: nothing need be done. Raises ``StateMigrationError`` if nothing can be.

    ``what`` names the state in messages.
    """
    if not same_layout(old, schema_of(types.value)):
        for migration in types.migrations:
            if migration.concerns(old):
                return Convert(_migrating(what, migration, old, types.value))
    return _checked(what, evolve(old, types.value))


def key_conversion(what: str, old: Json | None, types: StateTypes) -> Convert | None:
    """The same for the keys of maps."""
    return _checked(f"{what}, in its map keys,", evolve(old, types.map_key))


def _checked(what: str, verdict: Same | Convert | Incompatible) -> Convert | None:
    match verdict:
        case Incompatible():
            raise StateMigrationError(
                f"{what} cannot be restored: {verdict}. Keep the former type, or say with set_migration() of its"
                " descriptor how the new values are made of the saved ones."
            )
        case Convert():
            return verdict
    return None


def _migrating(
    what: str, migration: Migration, old: Json | None, declared: TypeInformation | None
) -> Conversion:
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


class TableSchemas:
    """The types of the states of one operator subtask."""

    def __init__(self, state: KeyedState, key_type: TypeInformation | None):
        self._state = state
        self._key_type = key_type
        schema = schema_of(key_type)
        #: Keys are looked up, so they must be read as what they were: those of classes nobody can import are pickled.
        self._key_schema = schema if schema is not None and holds_known_classes(schema) else None
        self._declared: dict[str, StateTypes] = {}  #: by the name of the table
        self._schemas: dict[str, tuple[Json | None, Json | None]] = {}  #: of values and map keys, as declared
        self._held = HeaderSpans()  #: what files said
        self._unsettled: dict[str, None] = {}  #: tables read since they were last looked after
        self._converted: dict[str, list[tuple[range, TableHeader]]] = {}  #: what files still say, until the next
        self._known_keys: list[Json | None] = [self._key_schema]

    # --- the program -------------------------------------------------------------------------------------------------

    def declare(self, tables: Iterable[str], types: StateTypes) -> None:
        """The program asks for a state that may be in these tables."""
        for table in tables:
            if self._declared.get(table) != types:
                self._declared[table] = types
                self._schemas[table] = schema_of(types.value), schema_of(types.map_key)
                self._settle(table)

    def types(self, table: str) -> StateTypes | None:
        """What the program declared for a table, if it asked for it."""
        return self._declared.get(table)

    def settle(self) -> None:
        """Files have been read: what they held of another type is converted."""
        for table in list(self._unsettled):
            self._settle(table)

    # --- the files ---------------------------------------------------------------------------------------------------

    def described(self, header: TableHeader) -> TableHeader:
        """The header of a file that is written now, with what its tables are made of."""
        value, map_key = self._schemas.get(header.name) or self._read_schemas(header.name)
        return replace(header, key_type=self._key_schema, value_type=value, map_key_type=map_key)

    def _read_schemas(self, table: str) -> tuple[Json | None, Json | None]:
        """Those of a table that the program has not asked for: as they were."""
        held = self._held.last(table)
        return (None, None) if held is None else (held.value_type, held.map_key_type)

    def loaded(self, header: TableHeader, groups: range) -> None:
        """A file with this table was read, for these key groups."""
        self._check_keys(header)
        self._held.add(header, groups)
        self._unsettled[header.name] = None

    def saved(self) -> None:
        """What was converted is in files now."""
        self._converted.clear()

    def revert(self) -> None:
        """The changes of an epoch were dropped, and with them what was converted."""
        for table, said in self._converted.items():
            self._held.put(table, said)
            self._unsettled[table] = None
        self._converted.clear()

    def reset(self) -> None:
        """All state was dropped, to be read anew."""
        self._held.clear()
        self._unsettled.clear()
        self._converted.clear()

    def _check_keys(self, header: TableHeader) -> None:
        if header.key_type in self._known_keys:
            return
        verdict = evolve_key(header.key_type, self._key_type)
        if isinstance(verdict, Incompatible):
            raise StateMigrationError(
                f"{self._what(header.name)} cannot be restored: the type of its keys has changed; {verdict}. Give"
                " key_by() the former key and key_type."
            )
        self._known_keys.append(header.key_type)

    # --- converting --------------------------------------------------------------------------------------------------

    def _settle(self, name: str) -> None:
        self._unsettled.pop(name, None)
        types, table = self._declared.get(name), self._state.find(name)
        if types is None or not isinstance(table, ValueTable | ListTable | MapTable):
            return
        rewriting = _Rewriting(self._what(name), self._state.pages, self._state.lifetimes.is_stamped(name))
        parts = self._held.take(name)
        if any(rewriting.concerns(header, types) for _, header in parts):
            self._converted[name] = parts
            group_of = self._state.grouping(table)
            for entries in _steps(table):
                for header, chosen in _by_header(entries, parts, group_of):
                    rewriting.convert(table, chosen, header, types)
                self._state.make_room()

    def _what(self, table: str) -> str:
        return f"State {state_name(table)!r} of operator {self._state.owner}"


def _steps(table: ValueTable | ListTable | MapTable) -> Iterator[list[tuple[Any, Any]]]:
    cursor = None
    while True:
        entries, cursor = walk(table, cursor, _STEP)
        if entries:
            yield entries
        if cursor is None:
            return


def _by_header(
    entries: list[tuple[Any, Any]], parts: list[tuple[range, TableHeader]], group_of: Callable[[Any], int]
) -> Iterable[tuple[TableHeader, list[tuple[Any, Any]]]]:
    """The entries by what was said about their key groups."""
    if len(parts) == 1:
        return [(parts[0][1], entries)]
    found: dict[int, tuple[TableHeader, list[tuple[Any, Any]]]] = {}
    for one in entries:
        group = group_of(one[0])
        header = next(header for groups, header in parts if group in groups)
        found.setdefault(id(header), (header, []))[1].append(one)
    return found.values()


class _Rewriting:
    """Brings entries of a table from the types of a file's header to those the program declares."""

    def __init__(self, what: str, pages: bool, stamped: bool):
        self._what = what
        self._pages = pages  #: what is not marked as changed is forgotten
        self._stamped = stamped  #: values stand beside the time of their last access
        self._verdicts: dict[int, tuple[TableHeader, Convert | None, Convert | None]] = {}

    def concerns(self, header: TableHeader, types: StateTypes) -> bool:
        """Whether anything is to be done, or refused, once there is an entry."""
        try:
            _, values, keys = self._verdict(header, types)
        except StateMigrationError:
            return True
        return values is not None or keys is not None

    def _verdict(
        self, header: TableHeader, types: StateTypes
    ) -> tuple[TableHeader, Convert | None, Convert | None]:
        found = self._verdicts.get(id(header))
        if found is None:
            keys = key_conversion(self._what, header.map_key_type, types) if header.kind == MapTable.kind else None
            found = header, conversion(self._what, header.value_type, types), keys
            self._verdicts[id(header)] = found
        return found

    def convert(
        self,
        table: ValueTable | ListTable | MapTable,
        entries: list[tuple[Any, Any]],
        header: TableHeader,
        types: StateTypes,
    ) -> None:
        """Convert what these entries hold."""
        _, of_values, of_keys = self._verdict(header, types)
        marks = self._pages or any(one is not None and one.rewrites for one in (of_values, of_keys))
        values = self._unstamped(of_values)
        match table:
            case ValueTable():
                names = [entry for entry, _ in entries]
                held = [value for _, value in entries]
                _put_values(table, names, held, self._apply(values, held, names), marks)
            case ListTable():
                for entry, items in entries:
                    _put_list(table, entry, self._apply(values, list(items), [entry]), marks)
            case MapTable():
                keys = None if of_keys is None else of_keys.function
                for entry, items in entries:
                    map_keys = self._apply(keys, list(items), [entry])
                    converted = self._apply(values, list(items.values()), [entry])
                    _put_map(table, entry, dict(zip(map_keys, converted, strict=True)), marks)

    def _apply(self, function: Conversion | None, values: list[Any], entries: list[Any]) -> list[Any]:
        if function is None:
            return values
        try:
            return function(values)
        except TypeMismatchError as error:
            culprit = entries[error.index if error.index is not None and len(entries) > 1 else 0]
            raise StateMigrationError(
                f"{self._what} cannot be restored, because of key {culprit!r}: {error} Declare the type that it has, or"
                " say with set_migration() of its descriptor how the new values are made of the saved ones."
            ) from error

    def _unstamped(self, convert: Convert | None) -> Conversion | None:
        if convert is None or not self._stamped:
            return None if convert is None else convert.function
        function = convert.function

        def stamped(pairs: list[Any]) -> list[Any]:
            converted = function([value for value, _ in pairs])
            return [(value, stamp) for value, (_, stamp) in zip(converted, pairs, strict=True)]

        return stamped


def _put_values(
    table: ValueTable, entries: list[Any], former: list[Any], values: list[Any], marks: bool
) -> None:
    for entry, old, new in zip(entries, former, values, strict=True):
        if new is None and old is not None:
            table.discard(entry)  # as a program does that sets a value to None
            continue
        table.entries[entry] = new
        if marks:
            table.changed[entry] = None


def _put_list(table: ListTable, entry: Any, items: list[Any], marks: bool) -> None:
    if marks:
        table.replace(entry, items)
    else:
        table.entries[entry][:] = items


def _put_map(table: MapTable, entry: Any, items: dict[Any, Any], marks: bool) -> None:
    if marks:
        table.clear_entry(entry)
        for map_key, value in items.items():
            table.put_item(entry, map_key, value)
    else:
        table.entries[entry] = items
