"""From results to what is printed: rates with their spread, and the ratios. Orchestrator side."""

from __future__ import annotations

import statistics
import sys

from rich.console import Console
from rich.table import Table

from bench import state

Result = dict

PEERS = (
    "limit",
    "pyflink-tuned",
    "pyflink-thread",
    "pyflink-default",
    "pyflink-rocksdb",
    "spark-tws",
    "spark-sql",
    "flink-session",
)
OURS = ("flott", "flott-pipelined", "flott-rocksdb")
#: Of fewer rounds, no percentile says anything.
MANY_ROUNDS = 20


def median(result: Result | None) -> float | None:
    """Records per second, or milliseconds where time is what is measured; None when missing."""
    values = (result or {}).get("rates") or (result or {}).get("milliseconds")
    return statistics.median(values) if values else None


def ratios(results: list[Result]) -> dict[str, dict[str, float | None]]:
    """Flott over the others: of rates (above 1: Flott is faster), of times for `empty_epoch` and `control` (slower)."""
    by_name = {(result["workload"], result["runner"]): result for result in results}
    found: dict[str, dict[str, float | None]] = {}
    for workload in dict.fromkeys(result["workload"] for result in results):
        others = ("native",) if workload == "empty_epoch" else PEERS
        found[workload] = {
            f"{ours}/{other}": _ratio(median(by_name.get((workload, ours))), median(by_name.get((workload, other))))
            for ours in OURS
            for other in (*others, *(("flott",) if ours == "flott-pipelined" else ()))
            if (workload, ours) in by_name and (workload, other) in by_name
        }
    return {workload: row for workload, row in (found | {"state": _of_sizes(by_name)}).items() if row}


def _of_sizes(by_name: dict[tuple[str, str], Result]) -> dict[str, float | None]:
    """The rate with much state over that with little, runner by runner: 1 if it makes no difference."""
    little = state.THROUGHPUT[0]
    return {
        f"{runner} {much}/{little}": _ratio(median(result), median(by_name[little, runner]))
        for (much, runner), result in by_name.items()
        if much in state.THROUGHPUT[1:] and (little, runner) in by_name
    }


def one_line(result: Result) -> str:
    """A progress line."""
    if "missing" in result:
        return f"missing: {result['missing']}"
    took = f"{result.get('took_seconds', 0):.0f} s in all"
    return f"{_amount(result)}  spread {_spread(result)}  ({result.get('detail', '')}; {took})"


def show(document: dict) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=140)
    machine = document["machine"]
    kept = ("cores", "cpu", "python", "java", "spark", "flink", "flott", "date")
    console.print("  ".join(f"{name}: {machine[name]}" for name in kept), highlight=False)
    if document["selection"]["quick"]:
        console.print("--quick: one short repeat each; a smoke test, not a result", style="yellow")
    console.print(_rates_table(document["results"]))
    console.print(_ratios_table(document["ratios"]))


def _rates_table(results: list[Result]) -> Table:
    table = Table(title="Steady state: median, spread, and the start-up that is not in it")
    for name, justify in (("workload", "left"), ("runner", "left"), ("median", "right"), ("spread", "right")):
        table.add_column(name, justify=justify)
    table.add_column("start-up", justify="right")
    table.add_column("how")
    previous = ""
    for result in results:
        if previous and result["workload"] != previous:
            table.add_section()
        previous = result["workload"]
        name = [result["workload"], result["runner"]]
        if "missing" in result:
            table.add_row(*name, "missing", "", "", result["missing"], style="dim")
        else:
            table.add_row(*name, _amount(result), _spread(result), _start(result), result.get("detail", ""))
    return table


def _ratios_table(found: dict[str, dict[str, float | None]]) -> Table:
    table = Table(
        title="Ratios (throughput: above 1 Flott is faster; empty_epoch, control: of times; state: much over little)"
    )
    for name in ("workload", "ratio"):
        table.add_column(name)
    table.add_column("value", justify="right")
    for workload, row in found.items():
        for name, value in row.items():
            table.add_row(workload, name, "missing" if value is None else f"{value:.3g}")
    return table


def _ratio(over: float | None, under: float | None) -> float | None:
    return round(over / under, 4) if over and under else None


def _amount(result: Result) -> str:
    value = median(result)
    if value is None:
        return "missing"
    return f"{value:.1f} ms" if "milliseconds" in result else f"{value:,.0f}/s"


def _spread(result: Result) -> str:
    """Lowest to highest; for the many rounds of `empty_epoch`, the 10th to the 90th percentile."""
    values, unit = (result["milliseconds"], " ms") if "milliseconds" in result else (result["rates"], "")
    if len(values) == 1:
        return "one run"
    lowest, highest = min(values), max(values)
    if len(values) >= MANY_ROUNDS:
        lowest, *_, highest = statistics.quantiles(values, n=10)
    return f"{lowest:,.0f}-{highest:,.0f}{unit}"


def _start(result: Result) -> str:
    seconds = result.get("session_start_seconds", 0.0) + result.get("job_start_seconds", 0.0)
    return f"{seconds:.1f} s"
