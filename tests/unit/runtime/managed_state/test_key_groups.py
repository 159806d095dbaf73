"""Key -> key group -> subtask: the same for ever, everywhere."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.types import Row
from flott.errors import KeyTypeError
from flott.runtime.managed_state import key_groups
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.key_groups import KeyGroupIndex, TargetIndex, groups_of, key_group_of, subtask_of

# State on disk is cut by these numbers. If this test fails, the change that made it fail must not be made.
GOLDEN = [
    ("alice", 3721958806, 5),
    ("", 453955339, 67),
    ("Zürich 🚲", 581318833, 19),
    (0, 1173530251, 73),
    (1, 854955549, 23),
    (-1, 26519294, 1),
    (1_000_000_007, 1026379370, 64),
    (2**80, 1152040419, 54),
    (0.5, 2520582982, 115),
    (Decimal("0.1"), 3852643498, 83),
    (None, 2013832146, 95),
    (b"\x00\xff", 2567973329, 103),
    (("alice", 7), 2733938146, 106),
    (((), ("a", None)), 3047877026, 79),
    (datetime.date(2024, 5, 1), 3071203728, 123),
    (datetime.datetime(2024, 5, 1, 12), 1358721231, 116),
    (datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), 3980947254, 44),
    (datetime.time(1, 2, 3), 1441161867, 86),
    (datetime.timedelta(days=1, seconds=2), 2153153998, 39),
    (UUID(int=1), 787669972, 39),
    (frozenset({"a", "b"}), 1056316086, 107),
    (Row("alice", 7), 3722988320, 108),
    (Row(name="alice", age=7), 775624096, 17),
]


@pytest.mark.parametrize(("key", "checksum", "group"), GOLDEN, ids=[type(key).__name__ for key, *_ in GOLDEN])
def test_the_group_of_a_key_never_changes(key, checksum, group):
    assert crc32(encode_key(key)) == checksum
    assert key_group_of(key, 128) == group


def test_equal_keys_share_their_group():
    for same in ([1, 1.0, True, Decimal(1)], [("a", 2), ("a", 2.0)]):
        assert len({key_group_of(key, 1024) for key in same}) == 1


@given(st.integers(1, 400).flatmap(lambda groups: st.tuples(st.just(groups), st.integers(1, groups))))
def test_every_group_belongs_to_exactly_the_subtask_whose_range_holds_it(shape):
    max_parallelism, parallelism = shape
    ranges = [groups_of(subtask, max_parallelism, parallelism) for subtask in range(parallelism)]
    assert [group for owned in ranges for group in owned] == list(range(max_parallelism))
    for subtask, owned in enumerate(ranges):
        assert len(owned) > 0
        assert {subtask_of(group, max_parallelism, parallelism) for group in owned} == {subtask}


def test_ranges_differ_by_one_group_at_most_for_all_parallelisms():
    for parallelism in range(1, 129):
        sizes = {len(groups_of(subtask, 128, parallelism)) for subtask in range(parallelism)}
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("make", [int, "user-{}".format, lambda i: (i % 100, str(i)), lambda i: i * 1024])
def test_ordinary_keys_spread_over_all_groups(make):
    sizes = Counter(key_group_of(make(i), 128) for i in range(20_000))
    assert len(sizes) == 128
    assert max(sizes.values()) < 1.5 * 20_000 / 128


def test_an_index_remembers_and_forgets_without_changing_its_answers(monkeypatch):
    monkeypatch.setattr(key_groups, "REMEMBERED_KEYS", 10)
    groups, subtasks = KeyGroupIndex(128), TargetIndex(128, range(5))
    for key in [*range(25), *range(25), *map(str, range(25))]:
        assert groups[key] == key_group_of(key, 128)
        assert subtasks[key] == subtask_of(groups[key], 128, 5)
        assert len(groups) <= 10
        assert len(subtasks) <= 10


def test_an_index_refuses_what_is_no_key():
    with pytest.raises(KeyTypeError, match="NaN"):
        KeyGroupIndex(128)[float("nan")]
    with pytest.raises(KeyTypeError, match="no identity"):
        TargetIndex(128, range(2))[object()]


SCRIPT = """
import datetime, enum, dataclasses
from flott.common.types import Row
from flott.runtime.managed_state.encoding import encode_key

class Color(enum.Enum):
    RED = 1

@dataclasses.dataclass(frozen=True)
class Place:
    country: str
    tags: frozenset

keys = ["alice", ("a", 1, None), frozenset("abcdefgh"), Color.RED, Place("DE", frozenset({"x", "y", "z"})),
        Row(b="2", a="1"), datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC), b"bytes", 1.5]
print([encode_key(key).hex() for key in keys])
"""


def test_bytes_are_the_same_whatever_the_hash_seed_of_the_process():
    outputs = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        outputs.add(ran.stdout)
    assert len(outputs) == 1


@pytest.mark.parametrize("keys", [range(16), range(100, 140), "abcdefghijklmno", [f"user-{n}" for n in range(20)]])
@pytest.mark.parametrize("parallelism", [2, 3, 4])
def test_a_few_keys_that_are_much_alike_do_not_crowd_in_one_subtask(keys, parallelism):
    owners = Counter(subtask_of(key_group_of(key, 128), 128, parallelism) for key in keys)
    assert max(owners.values()) <= 2 * len(keys) / parallelism
