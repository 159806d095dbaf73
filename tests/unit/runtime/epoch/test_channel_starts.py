"""What was on its way reaches exactly one subtask, whatever the parallelism was and is; by key, the right one."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.datastream import StreamExecutionEnvironment
from flott.graph.chain import chain
from flott.graph.edge_ids import edge_ids
from flott.graph.job_graph import JobEdge, JobGraph
from flott.graph.operator_ids import id_of_uid
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.channel_reading import saved_rows, share_of
from flott.runtime.epoch.channel_starts import channel_starts, unclaimed_edges, without_edges
from flott.runtime.epoch.image import TaskSettings, make_image
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.wire import DATA, TIME, decode_batch, encode_batch
from flott.runtime.managed_state.files.channel_file import QueueEnd, SavedBuffers, encode_channel_file, encode_time
from flott.runtime.managed_state.key_groups import key_group_of, subtask_of
from flott.runtime.operators.batch import RowBatch
from flott.runtime.storage import PosixStorage
from flott.testing.harness import in_process

WAYS = ("key", "rebalance", "shuffle", "global")


def program(way: str, source_parallelism: int, parallelism: int) -> JobGraph:
    env: StreamExecutionEnvironment = in_process(parallelism)
    numbers = env.from_collection(list(range(10))).map(lambda n: n).uid("numbers").set_parallelism(source_parallelism)
    spread: Any = {
        "key": lambda: numbers.key_by(lambda n: n % 7),
        "rebalance": numbers.rebalance,
        "shuffle": numbers.shuffle,
        "global": numbers.global_,
        "none": lambda: numbers,
    }[way]()
    spread.map(lambda n: n).uid("taken").set_parallelism(parallelism).print()
    return chain(env.get_stream_graph(clear_transformations=True))


def snapshot(graph: JobGraph) -> dict[Any, OperatorSnapshot]:
    return {
        ident: OperatorSnapshot(op.node.name, op.node.uid, op.node.parallelism, op.node.max_parallelism, ())
        for ident, op in graph.operators.items()
    }


_widths = st.tuples(st.integers(1, 4), st.integers(1, 4))


def owner(value: int, max_parallelism: int, parallelism: int) -> int:
    return subtask_of(key_group_of(value % 7, max_parallelism), max_parallelism, parallelism)


def edge_of(graph: JobGraph) -> JobEdge:
    return next(edge for edge in graph.edges if edge.target == id_of_uid("taken"))


@given(
    st.sampled_from(WAYS), _widths, _widths,
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(QueueEnd), st.integers(1, 5)), max_size=6), st.booleans(),
)  # fmt: skip
def test_every_record_reaches_one_subtask_and_the_one_that_owns_its_key(
    tmp_path_factory: pytest.TempPathFactory, way: str, before: tuple[int, int], after: tuple[int, int],
    sent: list[tuple[int, QueueEnd, int]], stamped: bool,
) -> None:  # fmt: skip
    former, graph = program(way, *before), program(way, *after)
    edge = edge_of(former)
    max_parallelism = former.vertex(edge.target).max_parallelism
    number, saved = 0, []
    for sender, place, records in sent:
        by_receiver: dict[int, list[int]] = {}
        for value in range(number, number + records):
            target = owner(value, max_parallelism, before[1]) if way == "key" else value % before[1]
            by_receiver.setdefault(0 if way == "global" else target, []).append(value)
        number += records
        for receiver, values in by_receiver.items():
            payload = encode_batch(RowBatch(values, values if stamped else None))
            time = encode_time(number, False, False)
            ident = edge_ids(former)[edge.index]
            saved.append(
                SavedBuffers(ident, edge.partitioning.label, sender % before[0], receiver, place, [time, payload])
            )
    storage = PosixStorage(str(tmp_path_factory.mktemp("starts")), sync=False)
    file, data = encode_channel_file("state/channels", saved)
    storage.write(file.name, data)
    manifest = Manifest(Mock(), "job", 1, 0, 0, operators=snapshot(former), channels=(file,) if saved else ())
    assert unclaimed_edges(manifest, graph) == []
    plan = EpochPlan("run", 2, 0, 0, 0, channels=channel_starts(manifest, graph))
    image = make_image(graph, "image", "job", storage, TaskSettings())
    stage = image.topology.stages[image.topology.stage_of[edge.target]]
    found: Counter[int] = Counter()
    times = 0
    for receiver in range(after[1]):
        for _, subtask, kind, _, _, _, payload in saved_rows(StageTask.build(image, stage, receiver), plan):
            assert subtask == receiver
            if kind == TIME:
                times += 1
                continue
            assert kind == DATA
            batch, _ = decode_batch(payload)
            assert batch.to_rows().timestamps == (batch.to_rows().values if stamped else None)
            found.update(batch.to_rows().values)
            if way == "key":
                assert all(owner(v, max_parallelism, after[1]) == receiver for v in batch.to_rows().values)
            if way == "global":
                assert receiver == 0
    assert found == Counter(range(number))
    assert times == (len(saved) if before == after else 0)


def test_batches_of_columns_and_with_row_kinds_are_divided_too() -> None:
    batch = RowBatch([10, 11, 12, 13, 14], [0, 1, 2, 3, 4], bytes([0, 1, 2, 3, 0]))
    first, second = (share_of(batch, None, 2, receiver, position=1) for receiver in (0, 1))
    assert first is not None
    assert second is not None
    assert (first.to_rows().values, first.to_rows().timestamps, first.to_rows().kinds) == ([11, 13], [1, 3], b"\1\3")
    assert (second.to_rows().values, second.to_rows().kinds) == ([10, 12, 14], b"\0\2\0")


def test_an_edge_that_the_program_does_not_have_is_found_and_can_be_left_out() -> None:
    former, other = program("key", 1, 2), program("none", 2, 2)  # the same operators in one chain
    ident = edge_ids(former)[edge_of(former).index]
    saved = SavedBuffers(ident, "HASH", 0, 0, QueueEnd.SENDER, [encode_batch(RowBatch([1]))])
    file, _ = encode_channel_file("f", [saved])
    manifest = Manifest(Mock(), "job", 1, 0, 0, operators=snapshot(former), channels=(file,))
    assert unclaimed_edges(manifest, former) == []
    assert unclaimed_edges(manifest, other) == [ident]
    assert channel_starts(manifest, other) == {}
    assert without_edges((file,), [ident]) == ()
    assert without_edges((file,), []) == (file,)


def test_edges_that_agree_in_everything_are_numbered() -> None:
    env = in_process(2)
    numbers = env.from_collection([1, 2]).map(lambda n: n).uid("numbers")
    numbers.rebalance().union(numbers.rebalance()).map(lambda n: n).uid("both").print()
    idents = list(edge_ids(chain(env.get_stream_graph(clear_transformations=True))).values())
    assert len(idents) == len(set(idents))
    assert {ident.number for ident in idents} == {0, 1}
