"""A channel-state file gives back what was put into it, section by section, or says that it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.errors import CorruptStateError
from flott.graph.edge_ids import EdgeId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.wire import encode_batch
from flott.runtime.managed_state.files.channel_file import (
    QueueEnd,
    SavedBuffers,
    decode_time,
    encode_channel_file,
    encode_time,
    is_time,
    read_section,
    verify_channel_file,
)
from flott.runtime.operators.batch import RowBatch
from flott.runtime.storage import PosixStorage

EDGE = EdgeId(OperatorId("a" * 32), OperatorId("b" * 32), 0)

_times = st.builds(encode_time, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.booleans())
_payloads = st.lists(st.integers(), max_size=3).map(lambda values: encode_batch(RowBatch(values)))
_saved = st.builds(
    SavedBuffers, st.just(EDGE), st.just("HASH"), st.integers(0, 3), st.integers(0, 3), st.sampled_from(QueueEnd),
    st.lists(_payloads | _times, min_size=1, max_size=4),
)  # fmt: skip


@given(st.lists(_saved, max_size=4))
def test_sections_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, saved: list[SavedBuffers]
) -> None:
    storage = PosixStorage(str(tmp_path_factory.mktemp("channels")), sync=False)
    file, data = encode_channel_file("state/f", saved)
    storage.write(file.name, data)
    assert file.size == len(data)
    assert [list(read_section(storage, file.name, section)) for section in file.sections] == [
        list(one.entries) for one in saved
    ]
    payloads = [entry for one in saved for entry in one.entries if not is_time(entry)]
    assert (file.buffers, file.payload_bytes) == (len(payloads), sum(map(len, payloads)))


def test_event_time_is_told_from_buffers() -> None:
    assert decode_time(encode_time(-5, True, False)) == (-5, True, False)
    assert is_time(encode_time(0, False, False))
    assert not is_time(encode_batch(RowBatch([1])))


def test_damage_is_found(tmp_path: Path) -> None:
    storage = PosixStorage(str(tmp_path), sync=False)
    saved = SavedBuffers(EDGE, "HASH", 0, 0, QueueEnd.SENDER, [encode_batch(RowBatch([1]))])
    file, data = encode_channel_file("f", [saved])
    for position in range(len(data) - 4):
        damaged = bytearray(data)
        damaged[position] ^= 1
        (tmp_path / "f").write_bytes(damaged)
        with pytest.raises(CorruptStateError):
            verify_channel_file(storage, file)
    (tmp_path / "f").write_bytes(data[:20])
    with pytest.raises(CorruptStateError, match="damaged"):
        verify_channel_file(storage, file)
