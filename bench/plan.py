"""What the bench runs: the runners, where each starts, and how long it may take. Data only; change sizes here."""

from __future__ import annotations

from dataclasses import dataclass

from bench import events

WORKLOADS = ("keyed_sum", "stateless", "word_count", "empty_epoch", *events.WORKLOADS)
RUNNERS = (
    "limit",
    "flott",
    "flott-typed",
    "pyflink-default",
    "pyflink-tuned",
    "pyflink-thread",
    "spark-tws",
    "spark-sql",
    "native",
)
TIMEOUT_SECONDS = 1_200


@dataclass(frozen=True)
class Runner:
    """How a runner is started. Records are the calibrating size: about a second of work, by workload."""

    module: str
    variant: str
    records: dict[str, int]
    patience: float = 1.0  # times Effort.seconds, for an engine whose start-up varies by seconds


CATALOGUE = {
    "limit": Runner(
        "limit",
        "",
        {"keyed_sum": 2_000_000, "stateless": 2_000_000, "word_count": 2_000_000}
        | dict.fromkeys(events.WORKLOADS, 1_000_000),
    ),
    "flott": Runner(
        "flott_spark",
        "",
        {"keyed_sum": 200_000, "stateless": 400_000, "word_count": 200_000, "empty_epoch": 0}
        | dict.fromkeys(events.WORKLOADS, 200_000),
    ),
    "flott-typed": Runner("flott_spark", "typed", {"keyed_sum": 200_000}),
    "pyflink-default": Runner("pyflink", "default", {"keyed_sum": 2_000, "stateless": 20_000, "word_count": 3_000}),
    "pyflink-tuned": Runner(
        "pyflink",
        "tuned",
        {"keyed_sum": 10_000, "stateless": 40_000, "word_count": 10_000},
        patience=2.0,
    ),
    # Windows are slow in PyFlink, so only the mode that was the faster one when both were measured in full.
    "pyflink-thread": Runner("pyflink", "thread", dict.fromkeys(events.WORKLOADS, 4_000)),
    "spark-tws": Runner("spark_tws", "", {"keyed_sum": 100_000, "stateless": 500_000, "word_count": 100_000}),
    # Spark cannot chain a stateful Python function and a window, so it has no two_stage.
    "spark-sql": Runner("spark_sql", "", dict.fromkeys(["tumbling", "sliding", "session", "interval"], 1_000_000)),
    "native": Runner("native", "", {"empty_epoch": 0}),
}


@dataclass(frozen=True)
class Effort:
    """How long to measure. `seconds` is the length of one counted difference."""

    seconds: float
    repeats: int


FULL = Effort(seconds=8.0, repeats=3)
QUICK = Effort(seconds=2.0, repeats=1)


def measurements(workloads: list[str], runners: list[str]) -> list[tuple[str, str]]:
    """(workload, runner) in the order they run: Flott before `native`, which takes over its Spark settings."""
    return [
        (work, name) for work in workloads for name in RUNNERS if name in runners and work in CATALOGUE[name].records
    ]
