"""What PyFlink has and Flott does not act upon: accepted with one line in the log, or refused with a sentence."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flott.common import Configuration, ExecutionConfig, Types
from flott.common import _options as options
from flott.datastream import (
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    StreamExecutionEnvironment,
)
from flott.datastream.data_stream import CachedDataStream
from flott.datastream.formats.csv import CsvSchema
from flott.errors import ConfigurationError, ProgramError
from flott.testing import collect, in_process


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        (lambda c: c.disable_closure_cleaner().is_closure_cleaner_enabled(), True, False),
        (lambda c: c.enable_force_kryo().is_force_kryo_enabled(), False, True),
        (lambda c: c.enable_force_avro().is_force_avro_enabled(), False, True),
        (lambda c: c.disable_generic_types().has_generic_types_disabled(), False, True),
        (lambda c: c.set_use_snapshot_compression(True).is_use_snapshot_compression(), False, True),
        (lambda c: c.set_task_cancellation_interval(8).get_task_cancellation_interval(), 30_000, 8),
    ],
)
def test_a_setting_for_the_jvm_is_remembered_and_mentioned_once_when_the_program_runs(
    call: Any, before: object, after: object, caplog: pytest.LogCaptureFixture
) -> None:
    configuration = Configuration()
    getter = call.__code__.co_names[-1]
    assert getattr(ExecutionConfig(configuration), getter)() == before
    assert call(ExecutionConfig(configuration)) == after
    assert getattr(ExecutionConfig(configuration), getter)() == after, "it is in the configuration"
    with caplog.at_level(logging.WARNING, "flott.porting"):
        options.validate(configuration)
    assert len(caplog.records) == 1
    assert "has no effect in Flott" in caplog.text


def test_settings_come_back_to_what_they_were() -> None:
    config = ExecutionConfig(Configuration())
    config.disable_closure_cleaner().enable_closure_cleaner().enable_force_kryo().disable_force_kryo()
    config.enable_force_avro().disable_force_avro().disable_generic_types().enable_generic_types()
    assert config.is_closure_cleaner_enabled()
    assert not config.is_force_kryo_enabled()
    assert not config.is_force_avro_enabled()
    assert not config.has_generic_types_disabled()
    assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []
    assert config.get_default_kryo_serializer_classes() == {}


def test_options_of_flinks_other_parts_pass_and_misspelt_ones_do_not() -> None:
    configuration = Configuration()
    configuration.set_string("taskmanager.numberOfTaskSlots", "4")
    configuration.set_string("state.backend.rocksdb.memory.managed", "true")
    options.validate(configuration)
    configuration.set_string("pipeline.maxparallelism", "4")
    with pytest.raises(ConfigurationError, match=r"did you mean 'pipeline\.max-parallelism'"):
        options.validate(configuration)


def test_a_cached_stream_is_the_stream_itself(caplog: pytest.LogCaptureFixture) -> None:
    env = in_process(1)
    with caplog.at_level(logging.WARNING, "flott.porting"):
        cached = env.from_collection([1, 2]).map(lambda n: n * n).cache()
    assert isinstance(cached, CachedDataStream)
    assert "cache() has no effect in Flott: every job computes its streams again" in caplog.text
    assert collect(cached) == collect(cached.map(lambda n: n)) == [1, 4]
    cached.invalidate()
    with pytest.raises(ProgramError, match="not for a keyed stream"):
        cached.key_by(lambda n: n).cache()


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        (lambda: CustomStateBackend(object()), "names a Java object.*HashMapStateBackend"),
        (lambda: CustomCheckpointStorage(object()), "names a Java object.*FileSystemCheckpointStorage"),
        (lambda: EmbeddedRocksDBStateBackend().set_options("org.Options"), "names a Java class"),
        (lambda: Types.INT().get_java_type_info(), "gives a Java object"),
        (lambda: CsvSchema.builder().set_allow_comments(), "does not do"),
        (lambda: CsvSchema.builder().set_any_property_name("rest"), "does not do"),
        (lambda: CsvSchema.builder().remove_array_element_separator(0), "add_string_column"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_a_sentence(use: Any, complaint: str) -> None:
    with pytest.raises(ProgramError, match=complaint):
        use()


def test_what_changes_nothing_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    builder = CsvSchema.builder().add_array_column("tags")
    with caplog.at_level(logging.WARNING, "flott.porting"):
        builder.set_array_element_separator("|").disable_array_element_separator().set_allow_comments(False)
    assert builder.build().array_separators == (";",)
    assert len(caplog.records) == 2
    assert EmbeddedRocksDBStateBackend().get_options() is None
    assert not Types.INT().need_conversion()
    assert Types.INT().to_internal_type(3) == Types.INT().from_internal_type(3) == 3


def test_every_setting_of_the_environment_that_is_ignored_can_be_called(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with caplog.at_level(logging.WARNING, "flott.porting"):
        env.set_buffer_timeout(5)
        env.enable_changelog_state_backend(True)
        env.add_jars("file:///a.jar")
        env.add_classpaths("file:///a")
        env.set_python_executable("python3")
        env.register_cached_file("a.txt", "a")
    assert len(caplog.records) == 6
    assert (env.get_buffer_timeout(), env.is_changelog_state_backend_enabled()) == (5, True)
