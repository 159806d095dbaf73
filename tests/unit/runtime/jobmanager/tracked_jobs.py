"""Real jobs, in-process, with a recorder that listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from flott.common import Configuration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.graph.chain import chain
from flott.runtime.jobmanager.views.job_view import JobView, VertexView
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.testing.clock import ManualClock
from flott.testing.harness import Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource

JOB_ID = "0123456789abcdef" * 2


class Count(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Numbers the records of a key, and counts them in a metric of its own."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.metric = runtime_context.get_metrics_group().counter("counted")

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.metric.inc()
        yield ctx.get_current_key(), self.count.value()


def counting(
    script: Sequence[Any] | Mapping[str, Sequence[Any]], parallelism: int = 2, options: Mapping[str, str] | None = None
) -> StreamExecutionEnvironment:
    """Numbers -> count by key -> a sink."""
    env = in_process(parallelism, **(options or {}))
    numbers = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % 7).process(Count()).name("Count").sink_to(LedgerSink(Ledger(uuid4().hex))).name("out")
    return env


def recorded(
    env: StreamExecutionEnvironment, folder: Path, clock: ManualClock | None = None, **settings: Any
) -> tuple[TrackingListener, Incarnation]:
    """Run a job to its end."""
    clock = clock or ManualClock()
    graph = chain(env.get_stream_graph(clear_transformations=False, job_name="counting"))
    recorder = TrackingListener(JOB_ID, graph, Configuration(env._configuration), clock, str(folder))
    listeners = [recorder, *settings.pop("listeners", [])]
    return recorder, live(env, folder, clock=clock, listeners=listeners, job_name="counting", **settings)


def vertex_named(view: JobView, start: str) -> VertexView:
    """The vertex whose name begins so."""
    return next(vertex for vertex in view.vertices if vertex.name.startswith(start))


def operator_sum(view: JobView, scope: str, metric: str) -> int | float:
    """A metric of an operator over all subtasks."""
    return sum(
        subtask.metrics[scope][metric]
        for vertex in view.vertices
        for subtask in vertex.subtasks
        if metric in subtask.metrics.get(scope, {})
    )


def at_step(name: str, epoch: int, act: Callable[[], None]) -> Callable[[str, int], None]:
    """A step hook that acts once."""

    def hook(step: str, at: int) -> None:
        if (step, at) == (name, epoch):
            act()

    return hook
