"""The README's tables of latency, recovery and an idle job. They are empty until that was measured."""

from __future__ import annotations

import statistics
from typing import Any

from bench import amounts
from bench.latency import plan

NOT_KEPT = "does not keep"


def tables(document: dict[str, Any]) -> list[str]:
    """Latency by engine and load, what is missing and why, and what follows from the other parts."""
    results = document.get("results", [])
    lines = ["", *_latency(results), *_reasons(results)] if results else []
    facts = [*_gaps(results), *_recovery(document.get("recovery", {})), *_idle(document.get("idle", {}))]
    lines += ["", *(f"- {fact}" for fact in facts)] if facts else []
    if lines:
        machine = document["machine"]
        dates = sorted({str(found.get("date", machine["date"]))[:10] for found in [*results, machine]})
        lines += ["", f"Latency and recovery: on {machine['cores']} cores, on {' and '.join(dates)}."]
    return lines


def _latency(results: list[dict[str, Any]]) -> list[str]:
    found = {(each["engine"], each["load"]): each for each in results}
    loads = [load for load in plan.LOADS if any(name == load.name for _, name in found)]
    engines = [engine for engine in plan.ENGINES if any(name == engine for name, _ in found)]
    return [
        "| p50 / p99 / p99.9, ms | " + " | ".join(_title(load, results) for load in loads) + " |",
        "| --- |" + " ---: |" * len(loads),
        *(
            f"| {plan.ENGINES[engine].title} | "
            + " | ".join(cell(found.get((engine, load.name))) for load in loads)
            + " |"
            for engine in engines
        ),
        "",
        "Age of a result at the sink against the time its record was due, with a checkpoint every second; one exchange,"
        " a keyed function with value state. Rates are shares of Flott's pipelined maximum with as many keys, and one"
        " that all can be compared at.",
    ]


def _title(load: plan.Load, results: list[dict[str, Any]]) -> str:
    rate = max(each["rate"] for each in results if each["load"] == load.name)
    share = "" if load.share is None else f" ({load.share:.0%})"
    return f"{rate:,}/s{share}, {'1 M' if load.keys == plan.MUCH else '10 k'} keys"


def cell(found: dict[str, Any] | None) -> str:
    """Three percentiles, or why there are none, in two words."""
    if found is None:
        return "not measured"
    if "missing" in found:
        return "not kept" if NOT_KEPT in found["missing"] else "missing"
    return " / ".join(_ms(found[name]) for name in ("p50", "p99", "p99.9"))


def _reasons(results: list[dict[str, Any]]) -> list[str]:
    reasons = {
        plan.ENGINES[each["engine"]].title: each["missing"]
        for each in results
        if "missing" in each and NOT_KEPT not in each["missing"]
    }
    return [f"Missing, {title}: {reason}" for title, reason in reasons.items()]


def _gaps(results: list[dict[str, Any]]) -> list[str]:
    much = [each for each in results if each["load"] == "50%-1m" and "longest_gap" in each]
    gaps = [f"{_ms(each['longest_gap'])} ms ({plan.ENGINES[each['engine']].title})" for each in much]
    return [f"Longest gap between two results at half the maximum, 1 M keys: {', '.join(gaps)}."] if gaps else []


def _recovery(found: dict[str, Any]) -> list[str]:
    measured = {backend: each for backend, each in found.items() if isinstance(each, dict) and "first_ms" in each}
    times = [
        f"{amounts.duration(statistics.median(each['first_ms']))} to the first new result and"
        f" {amounts.duration(statistics.median(each['caught_up_ms']))} until no record is late ({backend})"
        for backend, each in measured.items()
    ]
    keys = max((each["keys"] for each in measured.values()), default=0)
    return [f"A pipelined worker is killed (SIGKILL, {keys:,} keys): {', '.join(times)}."] if times else []


def _idle(found: dict[str, Any]) -> list[str]:
    if "cores" not in found:
        return []
    parts = ", ".join(f"{name} {found[name]:.1%}" for name in ("driver", "jvm", "slots"))
    return [f"A pipelined job without input takes {found['cores']:.1%} of a core ({parts})."]


def _ms(milliseconds: float) -> str:
    return (
        f"{milliseconds:,.0f}"
        if milliseconds >= 10
        else f"{milliseconds:.1f}"
        if milliseconds >= 1
        else f"{milliseconds:.2f}"
    )
