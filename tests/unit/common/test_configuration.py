"""Configurations hold texts; options give them meaning; unknown or unreadable ones are refused."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import _options as options
from flott.common._value_types import LIST, MAP, to_text
from flott.common.config_options import ConfigOptions
from flott.common.configuration import Configuration
from flott.common.time import Duration
from flott.errors import ConfigurationError


def test_values_are_set_and_got_by_type():
    configuration = Configuration()
    configuration.set_string("s", "text").set_integer("i", 3).set_boolean("b", True).set_float("f", 2)
    configuration.set_bytearray("y", bytearray(b"\x00\xff"))
    assert configuration.get_string("s", "") == "text"
    assert configuration.get_string("b", "") == "true"
    assert configuration.get_integer("i", 0) == 3
    assert configuration.get_boolean("b", False) is True
    assert configuration.get_float("f", 0.0) == 2.0
    assert configuration.get_bytearray("y", bytearray()) == b"\x00\xff"
    assert configuration.get_integer("missing", 7) == 7
    assert configuration.get_boolean("missing", False) is False


def test_a_configuration_is_copied_merged_and_compared():
    one = Configuration.of({"a": 1})
    other = Configuration(one).add_all(Configuration.of({"b": 2}), "x.")
    assert other.to_dict() == {"a": "1", "x.b": "2"}
    assert one.key_set() == {"a"}
    assert Configuration.from_dict({"a": "1"}) == one
    assert hash(Configuration.of({"a": "1"})) == hash(one)
    assert copy.deepcopy(one) == one
    assert copy.deepcopy(one) is not one
    assert other.remove_config("a")
    assert not other.remove_config("a")
    assert not other.contains_key("a")
    target: dict[str, object] = {"z": "0"}
    one.add_all_to_dict(target)
    assert target == {"z": "0", "a": 1}
    assert str(one) == "{a=1}"


def test_options_are_built_as_in_pyflink():
    option = ConfigOptions.key("my.size").int_type().default_value(3)
    configuration = Configuration()
    assert configuration.get(option) == 3
    assert configuration.get(option, 4) == 4
    assert configuration.set(option, 5).get(option) == 5
    assert configuration.contains(option)
    with pytest.raises(ConfigurationError):
        configuration.set(option, "many")
    assert configuration.get(option) == 5, "a refused value leaves the old one in place"


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (options.PARALLELISM, "4", 4),
        (options.OPERATOR_CHAINING, "FALSE", False),
        (options.CHECKPOINT_INTERVAL, "10 s", 10_000),
        (options.EPOCH_POLL_INTERVAL, Duration.of_seconds(1), 1000),
        (options.EPOCH_POLL_INTERVAL, datetime.timedelta(seconds=2), 2000),
        (options.EPOCH_POLL_INTERVAL, 30, 30),
        (options.EXCHANGE_MEMORY, "1 gb", 2**30),
        (options.EXCHANGE_MEMORY, "64kb", 65536),
        (options.RUNTIME_MODE, "batch", "BATCH"),
        (options.RESTART_STRATEGY, "off", "none"),
        (options.RESTART_STRATEGY, "fixeddelay", "fixed-delay"),
        (options.EXPONENTIAL_MULTIPLIER, "2", 2.0),
        (options.GLOBAL_JOB_PARAMETERS, {"a": 1, "b:c": "d,'e'"}, {"a": "1", "b:c": "d,'e'"}),
    ],
)
def test_an_option_is_read_with_its_type(option: Any, text: Any, value: Any):
    configuration = Configuration.of({option.key: text})
    options.validate(configuration)
    assert options.read(configuration, option) == value


@pytest.mark.parametrize(
    ("old", "option"),
    [
        ("state.checkpoints.dir", options.CHECKPOINT_DIR),
        ("execution.savepoint.path", options.RECOVERY_PATH),
        ("state.backend", options.STATE_BACKEND),
        ("restart-strategy", options.RESTART_STRATEGY),
    ],
)
def test_older_spellings_are_read_when_the_new_one_is_not_set(old: str, option: Any):
    value = {"state.backend": "hashmap", "restart-strategy": "none"}.get(old, "/somewhere")
    configuration = Configuration.of({old: value})
    options.validate(configuration)
    assert options.read(configuration, option) == value
    if "dir" in old:
        configuration.set(option, "/newer")
        assert options.read(configuration, option) == "/newer"


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("paralelism.default", 4, ["'paralelism.default'", "did you mean 'parallelism.default'?"]),
        ("flott.epoch.max_records", 4, ["did you mean 'flott.epoch.max-records'?"]),
        ("entirely.else", 4, ["Unknown option 'entirely.else'", "spark."]),
        ("parallelism.default", "four", ["parallelism.default", "found 'four'", "a whole number"]),
        ("parallelism.default", 0, ["found '0'", "at least 1"]),
        ("execution.checkpointing.interval", "soon", ["found 'soon'", "a duration such as"]),
        ("flott.storage.sync", "yes", ["found 'yes'", "true or false"]),
        ("flott.exchange.memory", "much", ["a size such as"]),
        ("flott.progress", "loud", ["one of auto, off, live, log"]),
        ("restart-strategy.type", "maybe", ["one of none, fixed-delay"]),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_found_and_expected(key: str, value: Any, parts: list[str]):
    with pytest.raises(ConfigurationError) as caught:
        options.validate(Configuration.of({key: value}))
    for part in parts:
        assert part in str(caught.value)


def test_a_value_without_text_form_is_refused_at_once():
    with pytest.raises(ConfigurationError, match="no text form"):
        Configuration.of({"pipeline.name": None})


def test_sparks_own_keys_pass_unchecked():
    options.validate(Configuration.of({"spark.anything.at.all": "x", "spark.master": "local[2]"}))


def test_every_option_is_documented_and_its_default_can_be_read_back():
    keys = [key for option in options.ALL_OPTIONS for key in option.spellings()]
    assert len(keys) == len(set(keys))
    for option in options.ALL_OPTIONS:
        assert option.description.endswith("."), option.key
        if option.default is not None:
            configuration = Configuration.of({option.key: option.default})
            assert options.read(configuration, option) == option.default, option.key


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4))
def test_maps_survive_their_text(entries: dict[str, str]):
    assert MAP.parse(to_text(entries)) == entries


def test_lists_are_read_in_both_of_flinks_spellings():
    assert LIST.parse("a;b") == LIST.parse("[a, 'b']") == ["a", "b"]
    assert Configuration.parse_list_value("") == []
    assert Configuration.parse_list_value(to_text(["a", "b"])) == ["a", "b"]
