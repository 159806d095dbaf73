"""Manifests and input plans: what is written is read, and damage is told from health."""

from __future__ import annotations

import json
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._savepoint_format import SavepointFormatType
from flott.datastream.connectors.base import Slice, SlicePlan
from flott.errors import CorruptStateError
from flott.graph.edge_ids import EdgeId
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import (
    EpochInput,
    Manifest,
    OperatorSnapshot,
    SavepointMark,
    SourceSnapshot,
    SubtaskSnapshot,
    decode_input,
    decode_manifest,
    encode_input,
    encode_manifest,
    with_names,
)
from flott.runtime.managed_state.backends.hashmap import StateFile
from flott.runtime.managed_state.files.channel_file import ChannelFile, ChannelSection, QueueEnd
from flott.runtime.managed_state.operator.operator_shares import Mode, OperatorStateFile, StateShape
from flott.runtime.operators.watermarks import TimeProgress

_times = st.integers(-(2**63), 2**63 - 1)
_text = st.text(max_size=8)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _text),
    lambda parts: st.one_of(st.lists(parts, max_size=3), st.dictionaries(_text, parts, max_size=3)),
    max_leaves=5,
)
_ids = st.text("0123456789abcdef", min_size=4, max_size=4).map(OperatorId)
_files = st.builds(StateFile, _text, st.integers(0, 2**50), st.booleans(), st.lists(_text, max_size=3).map(tuple))
_progress = st.builds(
    TimeProgress, _times, st.booleans(), st.none() | _times, st.none() | st.binary(max_size=8)
)
_operator_files = st.builds(
    OperatorStateFile, _text, st.integers(0, 2**50),
    st.lists(st.builds(StateShape, _text, st.sampled_from(Mode), st.integers(0, 2**40)), max_size=3).map(tuple),
)  # fmt: skip
_subtasks = st.builds(
    SubtaskSnapshot, _times, st.none() | st.lists(_files, max_size=3).map(tuple), st.none() | _progress,
    st.none() | _operator_files,
)  # fmt: skip
_operators = st.builds(
    OperatorSnapshot, _text, st.none() | _text, st.integers(1, 9), st.integers(1, 128),
    st.lists(_subtasks, max_size=3).map(tuple),
)  # fmt: skip
_sources = st.builds(SourceSnapshot, _json, st.dictionaries(_text, _progress, max_size=3), st.booleans())
_sections = st.builds(
    ChannelSection, st.builds(EdgeId, _ids, _ids, st.integers(0, 1), _text, st.integers(0, 2)), _text,
    st.integers(0, 9), st.integers(0, 9), st.sampled_from(QueueEnd), *[st.integers(0, 2**40)] * 5,
)  # fmt: skip
_channel_files = st.builds(ChannelFile, _text, st.integers(0, 2**50), st.lists(_sections, max_size=3).map(tuple))
manifests = st.builds(
    Manifest, _text, _text, st.integers(1), _times, st.integers(0, 2**32),
    operators=st.dictionaries(_ids, _operators, max_size=3),
    sources=st.dictionaries(_ids, _sources, max_size=2),
    committables=st.dictionaries(_ids, st.lists(_json, max_size=3), max_size=2),
    attempts=st.lists(_text, max_size=3).map(tuple),
    wakeup_ms=st.none() | _times,
    final=st.booleans(),
    accumulators=st.none() | st.binary(max_size=4),
    savepoint=st.none() | st.builds(
        SavepointMark, _text, st.sampled_from(SavepointFormatType), st.none() | _text, st.booleans()
    ),
    channels=st.lists(_channel_files, max_size=2).map(tuple),
)  # fmt: skip
_slices = st.builds(Slice, _text, _json, _json, st.none() | st.integers(0), st.booleans(), _json)
_slice_plans = st.builds(
    SlicePlan, st.lists(_slices, max_size=3).map(tuple), st.booleans(), st.booleans(), st.none() | _times,
    st.lists(_text, max_size=2).map(tuple),
)  # fmt: skip
_held = st.frozensets(_text, min_size=1, max_size=2)


@st.composite
def plans(draw: st.DrawFn) -> EpochInput:
    slices = draw(st.dictionaries(_ids, _slice_plans, max_size=2))
    held = {ident: draw(_held) for ident in slices if draw(st.booleans())}
    return EpochInput(draw(st.integers(1)), draw(_times), slices, held)


EXAMPLE = Manifest(
    "j1", "word count", 7, 1_700_000_000_000, 42,
    operators={OperatorId("ab" * 16): OperatorSnapshot("count", "c", 2, 128, (
        SubtaskSnapshot(5, (StateFile("state/base", 100, True), StateFile("state/d", 20, False, ("state/c",)))),
        SubtaskSnapshot(
            6, (StateFile("state/other", 30, False),), TimeProgress(6, False, 1, b"gen"),
            OperatorStateFile("state/items", 7, (StateShape("r", Mode.BROADCAST, 3), StateShape("l", Mode.SPLIT, 1))),
        ),
    ))},
    sources={OperatorId("cd" * 16): SourceSnapshot({"at": 3}, {"s": TimeProgress(5)}, True)},
    committables={OperatorId("ef" * 16): [{"file": "x"}]},
    attempts=("a1",), wakeup_ms=9,
    channels=(ChannelFile("state/channels", 43, (
        ChannelSection(EdgeId(OperatorId("cd" * 16), OperatorId("ab" * 16), 0, "late", 1), "HASH", 1, 0,
                       QueueEnd.SENDER, 8, 31, 99, 1, 27),
    )),),
)  # fmt: skip
EXAMPLE_PLAN = EpochInput(
    3, 99, {OperatorId("ab" * 16): SlicePlan((Slice("s", 0, 5, 5, True, {"p": 1}),), False, True, 7)}
)


@given(manifests)
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert decode_manifest(encode_manifest(manifest), "f") == manifest


@given(plans())
def test_an_input_plan_is_read_as_it_was_written(plan):
    assert decode_input(encode_input(plan), "f") == plan


def test_files_are_renamed_wherever_they_are_referred_to():
    renamed = with_names(EXAMPLE, lambda name: f"/elsewhere/{name}")
    assert renamed.files == {f"/elsewhere/{name}" for name in EXAMPLE.files}
    assert renamed.state_bytes == EXAMPLE.state_bytes
    sequences = [s.sequence or () for op in renamed.operators.values() for s in op.subtasks]
    assert not any(file.covers for sequence in sequences for file in sequence), "nobody has files under such names"
    assert with_names(Manifest("j", "n", 1, 0, 0), str.upper) == Manifest("j", "n", 1, 0, 0)


def test_a_manifest_knows_its_files_and_their_size():
    assert EXAMPLE.files == {"state/base", "state/d", "state/other", "state/items", "state/channels"}
    assert EXAMPLE.state_bytes == 200
    assert EXAMPLE.operators[OperatorId("ab" * 16)].has_state
    assert not OperatorSnapshot("n", None, 1, 1, (SubtaskSnapshot(sequence=()), SubtaskSnapshot())).has_state
    unkeyed = OperatorSnapshot("n", None, 1, 1, (SubtaskSnapshot(operator_state=OperatorStateFile("f", 1, ())),))
    assert (unkeyed.has_state, unkeyed.has_keyed_state) == (True, False)


@pytest.mark.parametrize(
    ("encoded", "decode"),
    [(encode_manifest(EXAMPLE), decode_manifest), (encode_input(EXAMPLE_PLAN), decode_input)],
    ids=["manifest", "plan"],
)
def test_damage_anywhere_is_a_corrupt_file_and_never_another_error(encoded, decode):
    for length in range(len(encoded)):
        with pytest.raises(CorruptStateError, match="chk-7/_metadata"):
            decode(encoded[:length], "chk-7/_metadata")
    for position in range(len(encoded)):
        for byte in (0x00, 0x22, 0x5D, 0x39, 0xFF):
            damaged = bytearray(encoded)
            damaged[position] = byte
            if damaged != encoded:
                with pytest.raises(CorruptStateError, match="chk-7/_metadata"):
                    decode(bytes(damaged), "chk-7/_metadata")


def _without_each_part(content: object) -> list[object]:
    """The JSON value with, in turn, each of its parts missing or replaced by something of another type."""
    variants: list[object] = []
    if isinstance(content, dict):
        for key, part in content.items():
            variants.append({k: v for k, v in content.items() if k != key})
            variants += [{**content, key: changed} for changed in [*_without_each_part(part), 5, None, [], {}, "x"]]
    elif isinstance(content, list):
        for index, part in enumerate(content):
            variants.append(content[:index] + content[index + 1 :])
            variants += [[*content[:index], changed, *content[index + 1 :]] for changed in _without_each_part(part)]
    return variants


@pytest.mark.parametrize(
    ("encoded", "decode"),
    [(encode_manifest(EXAMPLE), decode_manifest), (encode_input(EXAMPLE_PLAN), decode_input)],
    ids=["manifest", "plan"],
)
def test_a_file_with_parts_missing_or_of_another_type_raises_no_other_error(encoded, decode):
    refused = 0
    head, body = encoded.split(b"\n", 1)
    kind = head.split()[0]
    for content in _without_each_part(json.loads(body)):
        changed = json.dumps(content).encode()
        try:
            decode(b"%s 2 %08x %d\n%s" % (kind, crc32(changed), len(changed), changed), "f")
        except CorruptStateError:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("data", [b"", b"5", b"[]", b'"x"', b"null", b"{}", b"{", b"\xff\xfe", b"PK\x03\x04"])
def test_something_else_than_a_manifest_is_refused(data):
    for decode in (decode_manifest, decode_input):
        with pytest.raises(CorruptStateError, match=r"x/_metadata is not a Flott (snapshot|plan) or is damaged"):
            decode(data, "x/_metadata")


@pytest.mark.parametrize(("version", "age"), [(0, "an earlier"), (1, "an earlier"), (3, "a later"), (99, "a later")])
def test_another_version_is_refused_by_name(version, age):
    encoded = encode_manifest(EXAMPLE).replace(b" 2 ", f" {version} ".encode(), 1)
    with pytest.raises(CorruptStateError, match=rf"x has format version {version}, of {age} .* reads version 2\. Use"):
        decode_manifest(encoded, "x")


def test_a_plan_is_not_taken_for_a_checkpoint():
    with pytest.raises(CorruptStateError, match="not a Flott snapshot"):
        decode_manifest(encode_input(EXAMPLE_PLAN), "x")
    with pytest.raises(CorruptStateError, match="not a Flott plan"):
        decode_input(encode_manifest(EXAMPLE), "x")


def test_the_first_line_lets_anybody_check_the_rest():
    head, body = encode_manifest(EXAMPLE).split(b"\n", 1)
    assert head == b"flott-snapshot 2 %08x %d" % (crc32(body), len(body))
    assert json.loads(body)["job-name"] == "word count"
