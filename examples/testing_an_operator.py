"""Test a function that depends on time, without waiting: ``python examples/testing_an_operator.py``, or ``pytest``.

The harness runs the engine's own operators in this process, record by record. A test advances event time, reads state,
and continues from a snapshot with more subtasks, as a job does when it is rescaled.
"""

from __future__ import annotations

from collections.abc import Iterator

from flott.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.testing import OperatorHarness

QUIET_MS = 60_000


class Quiet(KeyedProcessFunction[str, str, str]):
    """Reports a machine that has sent nothing for a minute."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", int))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> None:
        now = ctx.timestamp()
        assert now is not None, "the stream has timestamps"
        self.latest.update(max(now, self.latest.value() or 0))
        ctx.timer_service().register_event_time_timer(now + QUIET_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[str]:
        quiet_since = timestamp - QUIET_MS
        if self.latest.value() == quiet_since:
            yield f"{ctx.get_current_key()} is quiet since {quiet_since // 1000} s"
            self.latest.clear()


def alarms(machines: DataStream[str]) -> DataStream[str]:
    """The operator under test, as in the program that uses it."""
    return machines.key_by(lambda machine: machine).process(Quiet()).uid("quiet")


def test_a_machine_that_reports_again_is_not_quiet() -> None:
    with OperatorHarness(alarms) as harness:
        harness.process_element("press", timestamp=0)
        harness.process_element("press", timestamp=50_000)
        harness.process_watermark(60_000)
        assert harness.output == []
        harness.process_watermark(110_000)
        assert harness.output == ["press is quiet since 50 s"]
        assert harness.num_keyed_state_entries == 0


def test_a_machine_is_not_forgotten_when_the_job_is_rescaled() -> None:
    with OperatorHarness(alarms) as harness:
        harness.process_element("press", timestamp=0)
        harness.process_element("lathe", timestamp=5_000)
        taken = harness.snapshot()
    with OperatorHarness(alarms, parallelism=3, snapshot=taken) as harness:
        assert harness.get_state("lathe", "latest") == 5_000
        harness.end_input()
        assert sorted(harness.output) == ["lathe is quiet since 5 s", "press is quiet since 0 s"]


def main() -> None:
    for test in (
        test_a_machine_that_reports_again_is_not_quiet,
        test_a_machine_is_not_forgotten_when_the_job_is_rescaled,
    ):
        test()
        print(f"passed: {test.__name__.removeprefix('test_').replace('_', ' ')}")


if __name__ == "__main__":
    main()
