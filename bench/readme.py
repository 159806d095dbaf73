"""``python -m bench.readme``: puts the numbers of the last full run into the project's README, between its marks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench import amounts, control_tables, report, state_tables
from bench.latency import tables as latency_tables

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
LATEST = ROOT / "bench" / "results" / "latest.json"
LATENCY = ROOT / "bench" / "results" / "latency.json"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

WORKLOADS = {
    "keyed_sum": "keyed running sum, `ValueState`, 10,000 keys",
    "stateless": "map, filter, flat_map",
    "word_count": "word count over text files",
}
PEERS = {
    "limit": "bare Python loop on all cores",
    "pyflink-tuned": "PyFlink, tuned",
    "pyflink-default": "PyFlink, default",
    "spark-tws": "Spark `transformWithState` in Python",
}

EVENT_WORKLOADS = {
    "tumbling": "tumbling window, 1 s, aggregate",
    "sliding": "sliding window, 10 s every second, aggregate",
    "session": "session window, gap 500 ms, aggregate",
    "interval": "interval join, ± 100 ms",
    "two_stage": "keyed process, then a tumbling window",
}
EVENT_PEERS = {
    "limit": "bare Python loop on all cores",
    "pyflink-thread": "PyFlink, tuned",
    "spark-sql": "Spark SQL streaming (JVM)",
}


def block(document: dict, latency: dict | None = None) -> str:
    """The README's tables of measurements; those of latency come from a run of their own."""
    found = {(result["workload"], result["runner"]): result for result in document["results"]}
    machine = document["machine"]
    dates = sorted({str(result.get("date", machine["date"]))[:10] for result in document["results"]})
    return "\n".join(
        [
            *_table(found, WORKLOADS, PEERS),
            "",
            "In brackets: Flott's rate as a multiple of the peer's. Spark's stateless chain is a `mapInArrow`.",
            *_epoch(found),
            "",
            *_table(found, EVENT_WORKLOADS, EVENT_PEERS),
            "",
            "Spark SQL runs these as expressions in the JVM: no function of a user's own, no Python.",
            *state_tables.tables(found),
            *control_tables.tables(found),
            "",
            f"Measured on {machine['cores']} cores with Python {machine['python']}, Spark {machine['spark']}, Java"
            f" {_version(machine['java'])} and Flink {machine['flink']}, on {' and '.join(dates)}.",
            *latency_tables.tables(latency or {}),
        ]
    )


def _table(found: dict, workloads: dict[str, str], peers: dict[str, str]) -> list[str]:
    if any((workload, "flott-pipelined") in found for workload in workloads):
        peers = {"flott-pipelined": "Flott, pipelined", **peers}
    lines = [
        "| records a second | Flott | " + " | ".join(peers.values()) + " |",
        "| --- | ---: |" + " ---: |" * len(peers),
    ]
    for workload, title in workloads.items():
        flott = report.median(found.get((workload, "flott")))
        cells = [amounts.rate(flott)]
        for peer in peers:
            value = report.median(found.get((workload, peer)))
            cells.append(amounts.rate(value) + (f" ({amounts.times(flott / value)})" if flott and value else ""))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def _epoch(found: dict) -> list[str]:
    flott = report.median(found.get(("empty_epoch", "flott")))
    native = report.median(found.get(("empty_epoch", "native")))
    if not flott or not native:
        return []
    return [
        f"An empty two-stage epoch, checkpoint included, takes {flott:.0f} ms; a native two-stage Spark job without"
        f" Python takes {native:.0f} ms ({flott / native:.2f} times)."
    ]


def _version(text: str | None) -> str:
    """The bare number in what ``java -version`` says."""
    found = re.search(r"\d[\d.]*", text or "")
    return found[0] if found else "?"


def latest_latency() -> dict | None:
    """The last results of `bench.latency`, if it has run."""
    return dict(json.loads(LATENCY.read_text())) if LATENCY.exists() else None


def with_block(text: str, document: dict, latency: dict | None) -> str:
    """The README with its table replaced."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{block(document, latency)}\n{END}{tail}"


def main() -> None:
    README.write_text(with_block(README.read_text(), json.loads(LATEST.read_text()), latest_latency()))


if __name__ == "__main__":
    main()
