"""State files: what is written is read; damage is noticed, never applied."""

from __future__ import annotations

import io
import json
import struct
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.errors import CorruptStateError, StateError, StorageError
from flott.runtime.managed_state.files.state_file import (
    StateFileReader,
    create_state_file,
    encode_file,
    open_state_file,
)
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.values import ValueDelta
from flott.runtime.storage import PosixStorage
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage, Worker

TABLES = [TableHeader("count", "value"), TableHeader("seen", "map", True)]
DELTAS: dict[str, dict[int, Any]] = {
    "count": {0: ValueDelta(["a"], [1], []), 7: ValueDelta(["b", "c"], [2, 3], ["d"])},
    "seen": {7: [(("b", "ns"), True, [], [], [("x", 1)])]},
}
DATA = encode_file(TABLES, DELTAS)
ALL = range(128)
MAGIC = b"FLOTTST2"


def reader(data: bytes, name: str = "dir/f") -> StateFileReader:
    return StateFileReader(io.BytesIO(data), name)


def read(data: bytes, groups: range = ALL) -> tuple[Any, dict[int, dict[str, Any]]]:
    opened = reader(data)
    return opened.tables, dict(opened.blocks(groups))


def test_a_file_is_read_as_it_was_written():
    tables, blocks = read(DATA)
    assert list(tables) == TABLES
    assert blocks == {0: {"count": DELTAS["count"][0]}, 7: {"count": DELTAS["count"][7], "seen": DELTAS["seen"][7]}}


def test_only_the_blocks_of_the_range_are_given_out():
    assert set(read(DATA, range(5))[1]) == {0}
    assert set(read(DATA, range(5, 9))[1]) == {7}
    assert read(DATA, range(8, 128))[1] == {}


def test_one_block_or_one_table_can_be_had_alone():
    opened = reader(DATA)
    assert list(opened.groups) == [0, 7]
    assert opened.block(7) == {"count": DELTAS["count"][7], "seen": DELTAS["seen"][7]}
    assert opened.table_delta(7, "seen") == DELTAS["seen"][7]
    assert (opened.table_delta(0, "seen"), opened.block(3), opened.block_bytes(3)) == (None, {}, 0)
    assert opened.block_bytes(0) > 0


class Watched(io.BytesIO):
    """Remembers how much was read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


def test_the_blocks_of_other_key_groups_are_not_even_read():
    large = encode_file(TABLES[:1], {"count": {0: [["a"], ["x" * 50_000], []], 1: [["b"], ["y"], []]}})
    file = Watched(large)
    assert dict(StateFileReader(file, "f").blocks(range(1, 2))) == {1: {"count": ValueDelta(["b"], ["y"], [])}}
    assert file.read_bytes < 1000


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=4),
        st.dictionaries(
            st.integers(0, 50), st.lists(st.tuples(st.text(), st.one_of(st.integers(), st.text(), st.none())))
        ),
        max_size=4,
    )
)
def test_any_tables_go_there_and_back(contents):
    deltas = {
        name: {group: ValueDelta([k for k, _ in pairs], [v for _, v in pairs], []) for group, pairs in groups.items()}
        for name, groups in contents.items()
    }
    tables = [TableHeader(name, "value") for name in deltas]
    found_tables, blocks = read(encode_file(tables, deltas))
    assert list(found_tables) == tables
    back: dict[str, dict[int, Any]] = {name: {} for name in deltas}
    for group, by_name in blocks.items():
        for name, delta in by_name.items():
            back[name][group] = delta
    assert back == deltas


def test_the_same_changes_make_the_same_bytes():
    assert encode_file(TABLES, DELTAS) == DATA


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_change_of_any_single_byte_is_noticed():
    for position in range(len(DATA)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            damaged = bytearray(DATA)
            damaged[position] ^= flip
            with pytest.raises(CorruptStateError, match="dir/f"):
                read(bytes(damaged))


def test_a_file_cut_off_anywhere_is_refused_also_by_those_who_need_only_its_beginning():
    for length in range(len(DATA)):
        with pytest.raises(CorruptStateError, match="dir/f"):
            read(DATA[:length])
        with pytest.raises(CorruptStateError, match="dir/f"):
            read(DATA[:length], range(1))


def test_a_file_cut_off_in_the_middle_says_so():
    with pytest.raises(CorruptStateError, match=rf"dir/f is damaged: .*after {len(DATA) - 1} bytes"):
        read(DATA[:-1])


def test_a_file_with_something_behind_it_is_refused():
    with pytest.raises(CorruptStateError, match="dir/f is damaged"):
        read(DATA + b"x")


def test_a_file_with_a_hole_in_it_is_refused():
    for start in range(8, len(DATA) - 1, 7):
        with pytest.raises(CorruptStateError, match="dir/f"):
            read(DATA[:start] + DATA[start + 5 :])


def test_a_damaged_block_is_named_and_the_others_can_still_be_read():
    position = DATA.index(MAGIC) + len(MAGIC) + reader(DATA).block_bytes(0) + 3
    damaged = bytearray(DATA)
    damaged[position] ^= 1  # in the block of group 7; group 0 comes before it
    opened = reader(bytes(damaged), "state/f1")
    assert opened.block(0) == {"count": DELTAS["count"][0]}
    with pytest.raises(CorruptStateError, match=r"state/f1 is damaged: the block of key group 7 does not match"):
        opened.block(7)
    with pytest.raises(CorruptStateError, match=r"state/f1 is damaged: the block of key group 7 does not match"):
        opened.table_delta(7, "seen")


def test_a_damaged_file_leaves_the_state_unusable_but_not_wrong():
    """Whatever part of the file is damaged, and however much of it was applied before that was noticed."""
    storage, live = MemoryStorage(), Worker()
    for key in ("a", "b", 3):
        live.do("set", key, 1)
    early = live.state.save((), storage, "f0")
    for key in ("a", "b", 3):
        live.do("set", key, 2)
        live.do("add", key, 2)
    sequence = live.state.save(early, storage, "f1")
    intact = storage.files["f1"]
    for position in range(0, len(intact), 5):
        other = Worker()
        other.state.bring_to(early, storage)
        storage.files["f1"] = intact[:position] + bytes([intact[position] ^ 0x10]) + intact[position + 1 :]
        with pytest.raises(CorruptStateError, match="f1"):
            other.state.bring_to(sequence, storage)
        storage.files["f1"] = intact
        other.state.bring_to(early, storage)
        assert [other.view()[repr(key)][0] for key in ("a", "b", 3)] == [1, 1, 1]
        other.state.bring_to(sequence, storage)
        assert other.view() == live.view()


@pytest.mark.parametrize("data", [b"", b"x", b"PK\x03\x04 some zip", b"\x00" * 100])
def test_a_file_of_another_kind_is_refused(data):
    with pytest.raises(CorruptStateError, match=r"dir/f is not a Flott state file: it begins with b'.*expected b'"):
        reader(data)


def test_a_later_version_is_refused_by_name_and_says_what_to_do():
    expected = r"dir/f has format version '3'; this version of Flott reads version '2'. Use the version of Flott that"
    with pytest.raises(CorruptStateError, match=expected):
        reader(DATA.replace(MAGIC, b"FLOTTST3"))


def with_footer(footer: bytes, blocks: bytes = b"") -> bytes:
    return MAGIC + blocks + footer + struct.pack("<QI4s", len(footer), crc32(footer), b"FLTE")


@pytest.mark.parametrize(
    "footer",
    [
        b"", b"[]", b"{}", b'"x"', b'{"tables": []}', b"\xff", b'{"tables": [{}], "blocks": []}',
        b'{"tables": [1], "blocks": []}', b'{"tables": [], "blocks": [1]}', b'{"tables": [], "blocks": [[]]}',
        b'{"tables": [], "blocks": [[0, 8]]}', b'{"tables": [], "blocks": [[0, "8", 0, 0]]}',
        b'{"tables": [], "blocks": [[[0], 8, 0, 0]]}',
    ],
)  # fmt: skip
def test_a_footer_without_its_fields_is_refused(footer):
    with pytest.raises(CorruptStateError, match=r"The footer of the state file dir/f cannot be read"):
        reader(with_footer(footer))


def test_what_a_later_minor_version_adds_to_the_footer_is_passed_over():
    footer = {"tables": [{"name": "n", "kind": "value", "namespaced": False, "new": 1}], "blocks": [], "more": {}}
    assert reader(with_footer(json.dumps(footer).encode())).tables == (TableHeader("n", "value"),)


@pytest.mark.parametrize(
    "place", [[0, 8, 5, 0], [0, 9, 4, 0], [0, 10**12, 1, 0], [0, 3, 4, 0], [0, -4, 4, 0], [0, 8, -1, 0]]
)
def test_a_block_outside_the_blocks_is_refused(place):
    footer = json.dumps({"tables": [], "blocks": [place]}).encode()
    with pytest.raises(CorruptStateError, match="dir/f is damaged: a block reaches beyond"):
        reader(with_footer(footer, b"1234"))


@pytest.mark.parametrize(
    "section",
    [b"\x00", struct.pack("<HQ", 5, 0), struct.pack("<HQ", 0, 10**6) + b"x", struct.pack("<HQ", 0, 0) + b"\x00\x00"],
    ids=["half a section", "of no table", "longer than its block", "something behind it"],
)
def test_a_block_that_is_not_made_of_sections_is_refused(section):
    tables = [{"name": "n", "kind": "value", "namespaced": False}]
    footer = json.dumps({"tables": tables, "blocks": [[4, 8, len(section), crc32(section)]]}).encode()
    with pytest.raises(StateError, match="dir/f"):
        reader(with_footer(footer, section)).block(4)


def test_changes_written_in_an_unknown_way_are_refused():
    section = struct.pack("<HQ", 0, 2) + b"\x09x"
    tables = [{"name": "n", "kind": "value", "namespaced": False}]
    footer = json.dumps({"tables": tables, "blocks": [[4, 8, len(section), crc32(section)]]}).encode()
    with pytest.raises(CorruptStateError, match=r"dir/f cannot be read: .*'n'.*Use the version of Flott that wrote"):
        reader(with_footer(footer, section)).block(4)


# --- objects of the program ------------------------------------------------------------------------------------------


class Moved:
    """A class of the user's that is gone when the state is read."""


def test_an_object_whose_class_is_gone_is_reported_with_advice(monkeypatch):
    data = encode_file(TABLES[:1], {"count": {0: [["a"], [Moved()], []]}})
    monkeypatch.delattr(f"{__name__}.Moved")
    with pytest.raises(StateError, match=r"'count' in the file dir/f holds an object .* made again: Attr.*former name"):
        read(data)


def test_no_class_of_flott_is_needed_to_read_a_block():
    assert b"flott" not in DATA


# --- writing ---------------------------------------------------------------------------------------------------------


def test_a_file_is_there_only_when_it_is_finished(tmp_path):
    storage = PosixStorage(str(tmp_path), sync=False)
    with pytest.raises(KeyError, match="unheard of"), create_state_file(storage, "state/f", TABLES) as writer:
        writer.add(0, {"count": DELTAS["count"][0], "unheard of": []})
    assert list((tmp_path / "state").iterdir()) == []
    with create_state_file(storage, "state/f", TABLES) as writer:
        writer.add(0, {"count": DELTAS["count"][0]})
    assert writer.size == (tmp_path / "state/f").stat().st_size
    with open_state_file(storage, "state/f") as opened:
        assert dict(opened.blocks(ALL)) == {0: {"count": DELTAS["count"][0]}}


def test_a_missing_file_is_named(tmp_path):
    storage = PosixStorage(str(tmp_path), sync=False)
    with pytest.raises(StorageError, match=r"state/gone: No such file"), open_state_file(storage, "state/gone"):
        pass
