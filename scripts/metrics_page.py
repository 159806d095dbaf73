"""Writes docs/reference/metrics.md from the table of the engine's metrics: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from flott.metrics._engine_metrics import ROWS, EngineMetric, Scope

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"

HEAD = """# Metrics

These are the metrics of the engine. [Metrics and traces](../guide/metrics.md) says how to define your own, and
[observability](../operations/observability.md) how to send them to Prometheus or OpenTelemetry and which to watch.

Names are Flink's where Flink has the metric. A *counter* only grows, and starts from zero when the job's process
starts. A *meter* is the growth of a counter per second, over the last ten seconds. The column *over epochs* says how
the values of successive epochs become one; *over subtasks* says how values of several subtasks are added up where one
number is shown for all of them.

This page is made by `make docs`.
"""

SECTIONS = {
    Scope.JOB_MANAGER: ("The JobManager", "`flink_jobmanager_<name>`; in REST at `/jobmanager/metrics`."),
    Scope.JOB: ("A job", "`flink_jobmanager_job_<name>`; in REST at `/jobs/<job>/metrics`."),
    Scope.TASK: (
        "A subtask",
        "`flink_taskmanager_job_task_<name>`; in REST at `/jobs/<job>/vertices/<vertex>/metrics` as"
        " `<subtask>.<name>`.",
    ),
    Scope.OPERATOR: (
        "An operator of a subtask",
        "`flink_taskmanager_job_task_operator_<name>`; in REST at `/jobs/<job>/vertices/<vertex>/metrics` as"
        " `<subtask>.<operator>.<name>`.",
    ),
    Scope.LATENCY: (
        "Latency",
        "The ages of [latency markers](../guide/metrics.md#latency-markers), if `metrics.latency.interval` is set. In"
        " Prometheus `flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency`, with the"
        " label `quantile`, and `…_latency_count`; in REST at `/jobs/<job>/metrics` as"
        " `latency.source_id.<id>.operator_id.<id>.operator_subtask_index.<n>.<name>`. With"
        " `metrics.latency.granularity: single` the part `source_id` is missing; with `subtask` the part"
        " `source_subtask_index.<n>` follows it.",
    ),
}


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(_section(scope, *SECTIONS[scope]) for scope in Scope)


def _section(scope: Scope, title: str, where: str) -> str:
    head = "| name | kind | unit | over epochs | over subtasks | meaning |\n| --- | --- | --- | --- | --- | --- |\n"
    rows = "".join(f"| {' | '.join(_cells(row))} |\n" for row in ROWS[scope].values())
    return f"\n## {title}\n\n{where}\n\n{head}{rows}"


def _cells(row: EngineMetric) -> tuple[str, ...]:
    over_subtasks = row.subtasks.value if row.subtasks is not None else ""
    return f"`{row.name}`", row.kind.value, row.unit, row.epochs.value, over_subtasks, row.help


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
