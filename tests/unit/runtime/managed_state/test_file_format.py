"""The format of state files as ``docs/formats/state-files.md`` describes it, read by somebody who has only that page.

``golden/tables.state`` and its like are files as version 2 was first written. They are never written anew: a change
that cannot read them, or that reads something else out of them, needs another version.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from flott.common.typeinfo import Types
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.state_file import StateFileReader, encode_file
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.key_groups import groups_of, key_group_of
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Delta
from flott.runtime.managed_state.schema.type_schema import schema_of

GOLDEN = Path(__file__).parent / "golden"

TEXT, LONG = schema_of(Types.STRING()), schema_of(Types.LONG())

#: A table of every kind. What is not declared is pickled.
TABLES = [
    TableHeader("sum", "value", key_type=TEXT, value_type=LONG),
    TableHeader("notes", "list", key_type=TEXT),
    TableHeader("seen", "map", key_type=TEXT, value_type=LONG, map_key_type=TEXT),
    TableHeader("brief@ttl", "value", key_type=TEXT, value_type=LONG, ttl={"since": 5, "ms": 100}),
    TableHeader("_window-contents", "value", namespaced=True, key_type=TEXT, value_type=LONG),
    TableHeader("_event-time-timers", "timers", key_type=TEXT),
    TableHeader("_window-panes", "panes", key_type=TEXT, value_type=LONG),
    TableHeader("_window-element-panes", "list-panes", key_type=TEXT, value_type=LONG),
    TableHeader("_interval-join-left", "timelines", key_type=TEXT, value_type=TEXT),
    TableHeader("anything", "value"),
]
PLAIN: dict[str, dict[int, Any]] = {
    "sum": {3: [["a", "b"], [1, -70_000], ["c"]], 90: [["z"], [None], []]},
    "notes": {3: [[("a", [1, "x"])], [("b", 2, [None])], ["c"]]},
    "seen": {3: [("a", True, [], [("u", 1)], [("v", 2), ("w", 3)]), ("b", False, ["x"], [], [])]},
    "brief@ttl": {3: [["a"], [(7, 1_000)], []]},
    "_window-contents": {3: [[("a", (0, 10)), ("b", (10, 20))], [1, 2], [("a", (20, 30))]]},
    "_event-time-timers": {3: [[(10, "a", None)], [(20, "b", None)]]},
    "_window-panes": {3: [[((0, 10), ["a", "b"], [1, 2])], [((10, 20), ["c"])]]},
    "_window-element-panes": {3: [[((0, 10), ["a"], [(1, [2, 3])])], []]},
    "_interval-join-left": {3: [3, [(4, ["a", "b"], [10, 11], ["x", "y"])], 5, ["c"]]},
    "anything": {3: [[("a", 1)], [{"any": [1.5, None]}], []]},
}
DELTAS: dict[str, dict[int, Delta]] = {
    table.name: {group: kind_of(table.kind).from_plain(plain) for group, plain in PLAIN[table.name].items()}
    for table in TABLES
}


# --- a reader made of the standard library ---------------------------------------------------------------------------


class PlainReader:
    """Reads a state file with struct and json, as the page says, and nothing of Flott's."""

    def __init__(self, data: bytes):
        assert data[:8] == b"FLOTTST2"
        length, checksum, end = struct.unpack("<QI4s", data[-16:])
        footer = data[-16 - length : -16]
        assert (end, crc32(footer)) == (b"FLTE", checksum)
        content = json.loads(footer)
        self.tables: list[dict[str, Any]] = content["tables"]
        self.sections: dict[tuple[int, str], bytes] = {}  #: by key group and table
        position, former = 8, -1
        for group, offset, size, block_checksum in content["blocks"]:
            block = data[offset : offset + size]
            assert (offset, crc32(block)) == (position, block_checksum)
            assert group > former
            self._take(group, block)
            position, former = offset + size, group
        assert position == len(data) - 16 - length

    def _take(self, group: int, block: bytes) -> None:
        position = 0
        while position < len(block):
            number, length = struct.unpack_from("<HQ", block, position)
            position += 10
            place = (group, self.tables[number]["name"])
            assert place not in self.sections
            self.sections[place] = block[position : position + length]
            position += length


class Columns:
    """Reads as much of the columns of a section as these files need: whole numbers and texts."""

    def __init__(self, section: bytes):
        assert section[0] == 1
        self.data, self.position = section, 1

    def byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def number(self) -> int:
        total = shift = 0
        while (byte := self.byte()) >= 128:
            total, shift = total | (byte & 127) << shift, shift + 7
        return total | byte << shift

    def take(self, length: int) -> bytes:
        self.position += length
        return self.data[self.position - length : self.position]

    def body(self, count: int) -> list[Any]:
        if not count:
            return []
        tag = self.byte()
        if tag == 6:
            return [None] * count
        if tag in (1, 2, 3, 4):
            code = "bhiq"[tag - 1]
            return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(code))))
        assert tag == 0x10
        return self.take(self.number()).decode().split("\0")

    def entries(self) -> list[Any]:
        return self.body(self.number())


@pytest.fixture(scope="module")
def plain() -> PlainReader:
    return PlainReader((GOLDEN / "tables.state").read_bytes())


def test_the_page_is_enough_to_find_every_section(plain: PlainReader) -> None:
    assert [(table["name"], table["kind"], table["namespaced"]) for table in plain.tables] == [
        (table.name, table.kind, table.namespaced) for table in TABLES
    ]
    assert set(plain.sections) == {(group, name) for name, groups in DELTAS.items() for group in groups}
    assert plain.tables[0]["key-type"]["type"] == "string"
    assert plain.tables[0]["value-type"]["type"] == "long"
    assert "value-type" not in plain.tables[1]


def test_the_page_is_enough_to_read_a_state_of_declared_types(plain: PlainReader) -> None:
    found: dict[str, Any] = {}
    for group in (3, 90):
        columns = Columns(plain.sections[group, "sum"])
        entries = columns.entries()
        found.update(zip(entries, columns.body(len(entries)), strict=True))
        for deleted in columns.entries():
            found.pop(deleted, None)
        assert columns.position == len(columns.data)
    assert found == {"a": 1, "b": -70_000, "z": None}


def test_what_was_not_declared_is_a_pickle_of_plain_lists(plain: PlainReader) -> None:
    section = plain.sections[3, "anything"]
    assert section[0] == 0
    assert b"flott" not in section
    assert pickle.loads(section[1:]) == PLAIN["anything"][3]


def test_a_file_of_the_first_day_is_read_for_ever() -> None:
    data = (GOLDEN / "tables.state").read_bytes()
    reader = StateFileReader(io.BytesIO(data), "tables.state")
    assert list(reader.tables) == TABLES
    for group in (3, 90):
        assert reader.block(group) == {name: groups[group] for name, groups in DELTAS.items() if group in groups}


def test_a_file_of_operator_state_is_read_for_ever() -> None:
    data = (GOLDEN / "operator.state").read_bytes()
    assert set(PlainReader(data).sections) == {(0, "offsets"), (0, "everybody"), (0, "rules")}
    reader = StateFileReader(io.BytesIO(data), "operator.state")
    assert list(reader.tables) == OPERATOR_TABLES
    assert reader.block(0) == {name: groups[0] for name, groups in OPERATOR_DELTAS.items()}


OPERATOR_TABLES = [
    TableHeader("offsets", "split-list", value_type=LONG),
    TableHeader("everybody", "union-list"),
    TableHeader("rules", "broadcast", value_type=LONG, map_key_type=TEXT),
]
OPERATOR_DELTAS: dict[str, dict[int, Delta]] = {
    "offsets": {0: [1, 2, 3]},
    "everybody": {0: ["x", None]},
    "rules": {0: [("limit", 60), ("floor", 5)]},
}


def test_writers_and_files_of_the_first_day_agree() -> None:
    """What is declared is written in the same bytes for ever; how Python pickles the rest may change with Python."""
    written, first_day = PlainReader(encode_file(TABLES, DELTAS)), PlainReader((GOLDEN / "tables.state").read_bytes())
    assert written.tables == first_day.tables
    for place, section in first_day.sections.items():
        if section[0] == 1 and place[1] != "notes":
            assert written.sections[place] == section, place


# --- keys ------------------------------------------------------------------------------------------------------------

#: Keys as JSON can spell them, their canonical bytes in base64, and their groups of 128.
KEYS = json.loads((GOLDEN / "keys.json").read_text())


@pytest.mark.parametrize(("key", "spelled", "group"), KEYS, ids=[str(key) for key, _, _ in KEYS])
def test_the_bytes_and_the_group_of_a_key_never_change(key: Any, spelled: str, group: int) -> None:
    key = tuple(key) if isinstance(key, list) else key
    canonical = base64.b64decode(spelled)
    assert encode_key(key) == canonical == plain_bytes(key)
    assert key_group_of(key, 128) == group == mixed(crc32(canonical)) % 128
    for parallelism in (1, 2, 3, 7, 128):
        owners = [i for i in range(parallelism) if group in groups_of(i, 128, parallelism)]
        assert owners == [group * parallelism // 128]


def mixed(h: int) -> int:
    """A checksum, mixed as the page says."""
    h ^= h >> 16
    h = h * 0x21F0AAAD % 2**32
    h ^= h >> 15
    h = h * 0x735A2D97 % 2**32
    return h ^ h >> 15


def plain_bytes(key: Any) -> bytes:
    """The canonical bytes of simple keys, as the page says."""
    match key:
        case None:
            return b"n"
        case str():
            return b"s" + key.encode()
        case float() if not key.is_integer():
            return b"f" + struct.pack(">d", key)
        case bool() | int() | float():
            number = int(key)
            small = -(2**63) <= number < 2**63
            return b"i" + struct.pack(">Q", number + 2**63) if small else b"I" + f"{number:x}".encode()
        case tuple():
            parts = map(plain_bytes, key)
            return b"t" + b"".join(struct.pack(">I", len(part)) + part for part in parts)
    raise AssertionError(key)
