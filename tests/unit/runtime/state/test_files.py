"""State files: what is written is read; damage is noticed, never applied."""

from __future__ import annotations

import json
import pickle
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.errors import CorruptStateError, StateError
from flott.runtime.state import files
from flott.runtime.state.files import TableHeader, encode_file, read_blocks, read_header
from tests.unit.runtime.state.keyed_workers import MemoryStorage, Worker

TABLES = [TableHeader("count", "value", False), TableHeader("seen", "map", True)]
DELTAS: dict[str, dict[int, Any]] = {
    "count": {0: [["a"], [1], []], 7: [["b", "c"], [2, 3], ["d"]]},
    "seen": {7: [("b", True, [], [], [("x", 1)])]},
}
DATA = encode_file(TABLES, DELTAS)
ALL = range(128)


def read(data: bytes, groups: range = ALL) -> tuple[Any, dict[int, dict[str, Any]]]:
    header, _ = read_header(data, "f")
    return header.tables, dict(read_blocks(data, "f", groups))


def test_a_file_is_read_as_it_was_written():
    tables, blocks = read(DATA)
    assert list(tables) == TABLES
    assert blocks == {0: {"count": DELTAS["count"][0]}, 7: {"count": DELTAS["count"][7], "seen": DELTAS["seen"][7]}}


def test_only_the_blocks_of_the_range_are_given_out():
    assert set(read(DATA, range(5))[1]) == {0}
    assert set(read(DATA, range(5, 9))[1]) == {7}
    assert read(DATA, range(8, 128))[1] == {}


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=4),
        st.dictionaries(st.integers(0, 50), st.lists(st.one_of(st.integers(), st.text(), st.none()))),
        max_size=4,
    )
)
def test_any_tables_go_there_and_back(deltas):
    tables = [TableHeader(name, "value", False) for name in deltas]
    found_tables, blocks = read(encode_file(tables, deltas))
    assert list(found_tables) == tables
    back: dict[str, dict[int, Any]] = {name: {} for name in deltas}
    for group, by_name in blocks.items():
        for name, delta in by_name.items():
            back[name][group] = delta
    assert back == deltas


def test_a_change_of_any_single_byte_is_noticed():
    for position in range(len(DATA)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            damaged = bytearray(DATA)
            damaged[position] ^= flip
            with pytest.raises(CorruptStateError, match="f"):
                read(bytes(damaged))


def test_a_file_cut_off_anywhere_is_refused_also_by_those_who_need_only_its_beginning():
    for length in range(len(DATA)):
        with pytest.raises(CorruptStateError):
            read(DATA[:length])
        with pytest.raises(CorruptStateError):
            read(DATA[:length], range(1))


def test_a_file_with_something_behind_it_is_refused():
    with pytest.raises(CorruptStateError, match=rf"it has {len(DATA) + 1} bytes, expected {len(DATA)}"):
        read(DATA + b"x")


def test_nothing_is_applied_of_a_file_with_one_damaged_block():
    damaged = bytearray(DATA)
    damaged[-1] ^= 1  # in the block of group 7; group 0 comes before it
    blocks = read_blocks(bytes(damaged), "state/f1", ALL)
    with pytest.raises(CorruptStateError, match=r"state/f1 is damaged: the block of key group 7 does not match"):
        next(blocks)


def test_a_damaged_file_leaves_the_state_unusable_but_not_wrong():
    storage, live, other = MemoryStorage(), Worker(), Worker()
    for key in ("a", "b", 3):
        live.do("set", key, 1)
    chain = live.state.save((), storage, "f0")
    intact = storage.files["f0"]
    storage.files["f0"] = intact[:-1]
    with pytest.raises(CorruptStateError):
        other.state.bring_to(chain, storage)
    storage.files["f0"] = intact
    other.state.bring_to(chain, storage)
    assert other.view() == live.view()


@pytest.mark.parametrize("data", [b"", b"x", b"PK\x03\x04 some zip", b"\x00" * 100])
def test_a_file_of_another_kind_is_refused(data):
    with pytest.raises(CorruptStateError, match=r"dir/f is not a Flott state file: it begins with b'.*expected b'"):
        read_header(data, "dir/f")


def test_a_later_version_is_refused_by_name():
    with pytest.raises(CorruptStateError, match=r"dir/f has format version b'2'; this version of Flott reads b'1'"):
        read_header(DATA.replace(b"FLOTTST1", b"FLOTTST2"), "dir/f")


def with_header(header: bytes) -> bytes:
    return b"FLOTTST1" + len(header).to_bytes(4, "big") + crc32(header).to_bytes(4, "big") + header


def test_an_unknown_codec_is_refused_by_name():
    header = json.dumps({"tables": [], "blocks": [], "codec": "arrow-1"}).encode()
    with pytest.raises(CorruptStateError, match=r"dir/f is encoded with 'arrow-1'; this version .* reads 'pickle-5'"):
        read_header(with_header(header), "dir/f")


@pytest.mark.parametrize(
    "header", [b"", b"[]", b"{}", b'"x"', b'{"codec": "pickle-5"}', b"\xff",
               b'{"codec": "pickle-5", "tables": [{}], "blocks": []}',
               b'{"codec": "pickle-5", "tables": [1], "blocks": []}']
)  # fmt: skip
def test_a_header_without_its_fields_is_refused(header):
    with pytest.raises(CorruptStateError, match="The header of the state file dir/f cannot be read"):
        read_header(with_header(header), "dir/f")


class Moved:
    """A class of the user's that is gone when the state is read."""


def test_an_object_whose_class_is_gone_is_reported_with_advice(monkeypatch):
    data = encode_file(TABLES[:1], {"count": {0: [["a"], [Moved()], []]}})
    monkeypatch.delattr(f"{__name__}.Moved")
    with pytest.raises(StateError, match=r"dir/f holds an object that cannot be made again: Attr.*former name"):
        list(read_blocks(data, "dir/f", ALL))


def test_blocks_are_pickles_of_plain_containers():
    header, start = read_header(DATA, "f")
    for block in header.blocks:
        raw = DATA[start + block.offset : start + block.offset + block.length]
        assert b"flott" not in raw
        assert type(pickle.loads(raw)) is dict
    assert files.CODEC == "pickle-5"
