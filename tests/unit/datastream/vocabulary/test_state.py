"""State handles, descriptors and time to live."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from flott.common.time import Duration, Time
from flott.common.typeinfo import Types
from flott.datastream.functions import AggregateFunction
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

CleanupStrategies = StateTtlConfig.CleanupStrategies


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class OneList(ListState[int]):
    def __init__(self) -> None:
        self.held: list[int] = []

    def get(self) -> Iterable[int]:
        return self.held

    def add(self, value: int) -> None:
        self.held.append(value)

    def update(self, values: Sequence[int]) -> None:
        self.held = list(values)

    def add_all(self, values: Sequence[int]) -> None:
        self.held.extend(values)

    def clear(self) -> None:
        self.held = []


class OneMap(MapState[str, int]):
    def __init__(self) -> None:
        self.held: dict[str, int] = {}

    def get(self, key: str) -> int | None:
        return self.held.get(key)

    def put(self, key: str, value: int) -> None:
        self.held[key] = value

    def put_all(self, dict_value: Mapping[str, int]) -> None:
        self.held.update(dict_value)

    def remove(self, key: str) -> None:
        self.held.pop(key, None)

    def contains(self, key: str) -> bool:
        return key in self.held

    def items(self) -> Iterable[tuple[str, int]]:
        return self.held.items()

    def keys(self) -> Iterable[str]:
        return self.held.keys()

    def values(self) -> Iterable[int]:
        return self.held.values()

    def is_empty(self) -> bool:
        return not self.held

    def clear(self) -> None:
        self.held.clear()


def test_list_state_can_be_iterated() -> None:
    state = OneList()
    state.add(1)
    state.add_all([2, 3])
    assert list(state) == [1, 2, 3]


def test_map_state_can_be_used_like_a_dict() -> None:
    state = OneMap()
    state["a"] = 1
    state.put_all({"b": 2})
    assert "a" in state
    assert state["a"] == 1
    assert state["missing"] is None
    del state["a"]
    del state["missing"]
    assert list(state) == ["b"]


DESCRIPTORS: list[StateDescriptor] = [
    ValueStateDescriptor("s", Types.LONG()),
    ValueStateDescriptor("s"),
    ListStateDescriptor("s", Types.LONG()),
    MapStateDescriptor("s", Types.STRING(), Types.LONG()),
    MapStateDescriptor("s", Types.STRING()),
    ReducingStateDescriptor("s", operator.add, Types.LONG()),
    ReducingStateDescriptor("s", operator.mul, Types.LONG()),
    ValueStateDescriptor("other", Types.LONG()),
]


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_a_descriptor_equals_its_pickled_self_and_no_other(descriptor: StateDescriptor) -> None:
    travelled = pickle.loads(pickle.dumps(descriptor))
    assert travelled == descriptor
    assert hash(travelled) == hash(descriptor)
    assert [other for other in DESCRIPTORS if other == descriptor] == [descriptor]


def test_an_aggregating_descriptor_can_be_pickled() -> None:
    travelled = pickle.loads(pickle.dumps(AggregatingStateDescriptor("n", Count(), Types.LONG())))
    assert isinstance(travelled.get_agg_function(), Count)
    assert travelled.type_info == Types.LONG()


def test_collections_have_the_type_of_the_whole_and_of_the_parts() -> None:
    elements = ListStateDescriptor("l", Types.LONG())
    assert (elements.type_info, elements.elem_type_info) == (Types.LIST(Types.LONG()), Types.LONG())
    entries = MapStateDescriptor("m", Types.STRING(), Types.LONG())
    assert entries.type_info == Types.MAP(Types.STRING(), Types.LONG())
    assert (entries.key_type_info, entries.value_type_info) == (Types.STRING(), Types.LONG())


def test_types_may_be_left_out() -> None:
    assert ValueStateDescriptor("v").type_info is None
    assert ListStateDescriptor("l").type_info is None
    assert MapStateDescriptor("m").type_info is None
    assert ReducingStateDescriptor("r", max).type_info is None
    assert AggregatingStateDescriptor("a", Count()).type_info is None


def test_a_descriptor_cannot_be_renamed() -> None:
    descriptor = ValueStateDescriptor("v")
    with pytest.raises(AttributeError):
        descriptor.name = "w"  # type: ignore[misc]
    assert descriptor.get_name() == "v"


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_state_needs_a_name(name: Any) -> None:
    with pytest.raises(ValueError, match="name of a state"):
        ValueStateDescriptor(name)


def test_functions_of_descriptors_are_checked() -> None:
    with pytest.raises(TypeError, match="reducing state 'r' needs a ReduceFunction or a callable"):
        ReducingStateDescriptor("r", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"aggregating state 'a' needs an instance of .*AggregateFunction"):
        AggregatingStateDescriptor("a", max)  # type: ignore[arg-type]


def test_time_to_live_is_stored_and_part_of_the_content() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    descriptor, without = ValueStateDescriptor("v"), ValueStateDescriptor("v")
    descriptor.enable_time_to_live(config)
    assert descriptor.ttl_config == config
    assert without.ttl_config is None
    assert descriptor != without
    assert hash(descriptor) == hash(without)


def test_the_defaults_of_time_to_live_are_flinks() -> None:
    config = StateTtlConfig.new_builder(Time.hours(1)).build()
    assert config.is_enabled()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy() == CleanupStrategies.IncrementalCleanupStrategy(5, False)
    rocksdb = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb == CleanupStrategies.RocksdbCompactFilterCleanupStrategy(1000, Duration.of_days(30))


def test_the_builder_of_time_to_live_sets_everything_and_gives_a_value() -> None:
    def build() -> StateTtlConfig:
        return (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_ttl(Duration.of_seconds(10))
            .update_ttl_on_read_and_write()
            .return_expired_if_not_cleaned_up()
            .use_processing_time()
            .cleanup_full_snapshot()
            .cleanup_incrementally(10, True)
            .cleanup_in_rocksdb_compact_filter(7)
            .disable_cleanup_in_background()
            .build()
        )

    config = build()
    strategies = config.get_cleanup_strategies()
    assert config.get_ttl() == Time.seconds(10)
    assert strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    assert config == build() == pickle.loads(pickle.dumps(config))
    assert hash(config) == hash(build())
    assert config != StateTtlConfig.new_builder(Time.seconds(10)).build()


def test_without_background_cleanup_only_the_chosen_strategies_exist() -> None:
    strategies = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build()
    assert strategies.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
    assert strategies.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_builder_used_again_leaves_what_it_built_alone() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    first = builder.build()
    builder.cleanup_full_snapshot()
    assert not first.get_cleanup_strategies().in_full_snapshot()


def test_a_life_of_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one millisecond"):
        StateTtlConfig.new_builder(Time.seconds(0))


def test_a_disabled_time_to_live_is_not_enabled() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    assert not config.is_enabled()
