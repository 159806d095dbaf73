"""The interfaces a user extends."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import flott.datastream.functions as functions
from flott.datastream.functions import (
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    NullByteKeySelector,
    ProcessFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from flott.datastream.timerservice import TimerService
from flott.errors import ProgramError


class Plain(MapFunction):  # type: ignore[type-arg]  # as a PyFlink program writes it
    def map(self, value: Any) -> Any:
        return value


class Silent(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context[Any]) -> None:
        return None


class SilentPair(KeyedCoProcessFunction[Any, Any, Any, Any]):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context[Any]) -> None:
        return None

    process_element2 = process_element1


def test_a_function_may_leave_open_and_close_to_the_base_class() -> None:
    function = Plain()
    function.open(None)  # type: ignore[arg-type]
    function.close()
    assert function.map(1) == 1


def test_a_function_without_its_method_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Nothing", (ProcessFunction,), {})()


@pytest.mark.parametrize("function", [Silent(), SilentPair()])
def test_a_timer_does_nothing_by_default(function: Any) -> None:
    assert function.on_timer(1000, None) is None


def test_the_null_byte_key_selector_gives_one_key_to_all() -> None:
    assert {NullByteKeySelector().get_key(value) for value in ("a", 1, None)} == {0}


def test_functions_can_be_pickled() -> None:
    assert isinstance(pickle.loads(pickle.dumps(Plain())), Plain)


def test_every_exported_function_extends_function() -> None:
    others = {"RuntimeContext", "KeyedStateStore", "TimerService", "SourceFunction", "SinkFunction"}
    others |= {"AsyncRetryPredicate", "AsyncRetryStrategy"}
    others |= {"CheckpointedFunction", "FunctionInitializationContext", "FunctionSnapshotContext"}
    for name in set(functions.__all__) - others:
        assert issubclass(getattr(functions, name), Function)


def test_the_timer_context_knows_what_the_record_context_knows_and_the_clock() -> None:
    for function in (KeyedProcessFunction, KeyedCoProcessFunction):
        assert issubclass(function.OnTimerContext, function.Context)
        assert function.OnTimerContext.__abstractmethods__ - function.Context.__abstractmethods__ == {"time_domain"}


@pytest.mark.parametrize("interface", [RuntimeContext, TimerService, ProcessFunction.Context])
def test_what_the_runtime_implements_is_abstract_throughout(interface: type) -> None:
    methods = {name for name, _ in inspect.getmembers(interface, inspect.isfunction) if not name.startswith("_")}
    assert methods == interface.__abstractmethods__  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "instead"), [(SourceFunction, "base.Source"), (SinkFunction, "base.Sink")])
def test_a_java_connector_is_refused_with_the_way_out(kind: Any, instead: str) -> None:
    with pytest.raises(ProgramError, match=f"'org.acme.Thing'.*names a Java class.*{instead}"):
        kind("org.acme.Thing")
    assert issubclass(type("Mine", (kind,), {}), kind)
