"""The README's table about the control plane. It is empty until that was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from bench import amounts, control

#: (workload, runner) -> result
Found = dict[tuple[str, str], dict]

RUNNERS = {"flott": "Flott", "flink-session": "Flink", "limit": "bare Starlette, idle machine"}


def tables(found: Found) -> list[str]:
    """Latency of answers, and what starts, savepoints and jobs cost."""
    flott = found.get(("control", "flott"))
    if flott is None:
        return []
    if "missing" in flott:
        return ["", f"The control plane was not measured: {flott['missing']}"]
    asked = {runner: title for runner, title in RUNNERS.items() if ("control", runner) in found}
    results = [found["control", runner] for runner in asked]
    rows = {
        "GET, median": _of("flinks", "p50", _milliseconds),
        "GET, 99th percentile": _of("flinks", "p99", _milliseconds),
        "submitted to RUNNING, all at once": _of("running_seconds", "at_once", _seconds),
        "savepoint through REST": _savepoint,
        "memory of the JobManager": _of("memory_megabytes", "with_jobs", _megabytes),
        "the same after the requests": _of("memory_megabytes", "after_requests", _megabytes),
    }
    return [
        "",
        f"| a session with {flott['jobs']} jobs | " + " | ".join(asked.values()) + " |",
        "| --- |" + " ---: |" * len(asked),
        *(f"| {title} | " + " | ".join(map(cell, results)) + " |" for title, cell in rows.items()),
        "",
        _sentences(flott),
    ]


def _sentences(flott: dict) -> str:
    """What the table has no room for: Flott's own endpoints are among these."""
    endpoints = flott["endpoints"]
    over = [path for path, times in endpoints.items() if times["p99"] > control.ASKED_MILLISECONDS]
    slowest = max(endpoints, key=lambda path: endpoints[path]["p99"])
    memory = flott["memory_megabytes"]
    kept = "all" if not over else f"all but {len(over)}"
    return (
        f"Of {len(endpoints)} GET endpoints, {kept} have a 99th percentile of at most"
        f" {control.ASKED_MILLISECONDS:g} ms; the slowest is `{slowest}` with"
        f" {_milliseconds(endpoints[slowest]['p99'])}. With no job the 99th percentile is"
        f" {_milliseconds(flott['empty']['p99'])}; beside the jobs, a bare server that has nothing to do with them has"
        f" {_milliseconds(flott['bare_beside']['p99'])}. A job's process takes {memory['a_job_process']:.0f} MB, its"
        f" Python workers {memory['a_job_workers']:.0f} MB; an empty session takes {flott['empty_cpu']['all']:.1%} of a"
        f" core, the jobs and Spark {flott['cpu']['all']:.0%}."
    )


# --- cells -----------------------------------------------------------------------------------------------------------


def _of(part: str, name: str, text: Callable[[float], str]) -> Callable[[dict], str]:
    def cell(result: dict) -> str:
        value = result.get(part, {}).get(name)
        return _nothing(result) if value is None else text(value)

    return cell


def _savepoint(result: dict) -> str:
    times = result.get("savepoint_milliseconds")
    return amounts.duration(statistics.median(times)) if times else _nothing(result)


def _nothing(result: dict) -> str:
    return "" if result and "missing" not in result else "missing"


def _milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 10 else amounts.duration(value)


def _seconds(value: float) -> str:
    return f"{value:.1f} s"


def _megabytes(value: float) -> str:
    return f"{value:,.0f} MB"
