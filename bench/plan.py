"""What the bench runs: the runners, where each starts, and how long it may take. Data only; change sizes here."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench import control, events, kafka, state

WORKLOADS = (
    "keyed_sum",
    "stateless",
    "word_count",
    "empty_epoch",
    *events.WORKLOADS,
    *state.WORKLOADS,
    *control.WORKLOADS,
    *kafka.WORKLOADS,
)
#: Names that stand for several workloads.
FAMILIES = {"state": state.WORKLOADS, "kafka": kafka.WORKLOADS}
RUNNERS = (
    "limit",
    "flott",
    "flott-pipelined",
    "flott-typed",
    "flott-rocksdb",
    "pyflink-default",
    "pyflink-tuned",
    "pyflink-thread",
    "pyflink-rocksdb",
    "spark-tws",
    "spark-sql",
    "native",
    "flink-session",
)
TIMEOUT_SECONDS = 1_200

#: The workloads of large state have modules of their own, and sizes that `state.Stream` knows.
FLOTT_STATE = (
    dict.fromkeys(state.THROUGHPUT, "flott_state")
    | dict.fromkeys(state.RESTORES, "flott_restore")
    | {"checkpoint": "flott_checkpoint", "rescale": "flott_rescale"}
)


#: Those with Kafka, too. They fill a topic with the records first, which takes longer than to read them.
KAFKA_RECORDS = 100_000


@dataclass(frozen=True)
class Runner:
    """How a runner is started. Records are the calibrating size: about a second of work, by workload."""

    module: str
    variant: str
    records: dict[str, int]
    patience: float = 1.0  # times Effort.seconds, for an engine whose start-up varies by seconds
    modules: dict[str, str] = field(default_factory=dict)  # of workloads that have another

    @property
    def workloads(self) -> set[str]:
        return {*self.records, *self.modules}

    def module_for(self, workload: str) -> str:
        return self.modules.get(workload, self.module)


CATALOGUE = {
    "limit": Runner(
        "limit",
        "",
        {"keyed_sum": 2_000_000, "stateless": 2_000_000, "word_count": 2_000_000}
        | dict.fromkeys(events.WORKLOADS, 1_000_000)
        | dict.fromkeys(kafka.WORKLOADS, KAFKA_RECORDS),
        modules=dict.fromkeys(state.THROUGHPUT, "limit_state")
        | {"control": "limit_control"}
        | dict.fromkeys(kafka.WORKLOADS, "limit_kafka"),
    ),
    "flott": Runner(
        "flott_spark",
        "",
        {"keyed_sum": 200_000, "stateless": 400_000, "word_count": 200_000, "empty_epoch": 0}
        | dict.fromkeys(events.WORKLOADS, 200_000)
        | dict.fromkeys(kafka.WORKLOADS, KAFKA_RECORDS),
        modules=FLOTT_STATE | {"control": "flott_control"} | dict.fromkeys(kafka.WORKLOADS, "flott_kafka"),
    ),
    "flott-pipelined": Runner(
        "flott_spark",
        "pipelined",
        {"keyed_sum": 200_000, "stateless": 400_000, "word_count": 200_000},
        modules=dict.fromkeys(["state_10k", "state_1m"], "flott_state"),
    ),
    "flott-typed": Runner("flott_spark", "typed", {"keyed_sum": 200_000}),
    "flott-rocksdb": Runner("flott_spark", "rocksdb", {}, modules=FLOTT_STATE),
    "pyflink-default": Runner("pyflink", "default", {"keyed_sum": 2_000, "stateless": 20_000, "word_count": 3_000}),
    "pyflink-tuned": Runner(
        "pyflink",
        "tuned",
        {"keyed_sum": 10_000, "stateless": 40_000, "word_count": 10_000},
        patience=2.0,
    ),
    # Windows are slow in PyFlink, so only the mode that was the faster one when both were measured in full.
    "pyflink-thread": Runner(
        "pyflink",
        "thread",
        dict.fromkeys(events.WORKLOADS, 4_000) | dict.fromkeys(kafka.WORKLOADS, 10_000),
        modules=dict.fromkeys(kafka.WORKLOADS, "pyflink_kafka"),
    ),
    "pyflink-rocksdb": Runner("pyflink", "rocksdb", {}, modules=dict.fromkeys(state.THROUGHPUT, "pyflink_state")),
    "spark-tws": Runner(
        "spark_tws",
        "",
        {"keyed_sum": 100_000, "stateless": 500_000, "word_count": 100_000},
        # Filling five million keys would take it more than ten minutes: what is not measured has no row.
        modules=dict.fromkeys(["state_10k", "state_1m"], "spark_tws_state"),
    ),
    # Spark cannot chain a stateful Python function and a window, so it has no two_stage.
    "spark-sql": Runner("spark_sql", "", dict.fromkeys(["tumbling", "sliding", "session", "interval"], 1_000_000)),
    "native": Runner("native", "", {"empty_epoch": 0}),
    "flink-session": Runner("flink_control", "", {"control": 0}),
}


@dataclass(frozen=True)
class Effort:
    """How long to measure. `seconds` is the length of one counted difference."""

    seconds: float
    repeats: int
    shrink: int = 1  # how many times smaller large state is


FULL = Effort(seconds=8.0, repeats=3)
QUICK = Effort(seconds=2.0, repeats=1, shrink=100)

#: What a measurement takes of which the last results say nothing.
EXPECTED_SECONDS = {
    ("state_10k", "limit"): 8,
    ("state_1m", "limit"): 12,
    ("state_5m", "limit"): 25,
    ("state_10k", "flott"): 25,
    ("state_1m", "flott"): 30,
    ("state_5m", "flott"): 60,
    ("state_10k", "flott-pipelined"): 22,
    ("state_1m", "flott-pipelined"): 22,
    ("state_10k", "flott-rocksdb"): 35,
    ("state_1m", "flott-rocksdb"): 45,
    ("state_5m", "flott-rocksdb"): 130,
    ("state_10k", "pyflink-rocksdb"): 45,
    ("state_1m", "pyflink-rocksdb"): 90,
    ("state_5m", "pyflink-rocksdb"): 330,
    ("state_10k", "spark-tws"): 50,
    ("state_1m", "spark-tws"): 220,
    ("checkpoint", "flott"): 15,
    ("checkpoint", "flott-rocksdb"): 60,
    ("restore_1m", "flott"): 25,
    ("restore_1m", "flott-rocksdb"): 30,
    ("restore_5m", "flott"): 45,
    ("restore_5m", "flott-rocksdb"): 80,
    ("rescale", "flott"): 35,
    ("rescale", "flott-rocksdb"): 50,
    ("control", "limit"): 200,
    ("control", "flott"): 600,
    ("control", "flink-session"): 400,
}
USUAL_SECONDS = 60
QUICK_SECONDS = 15


def measurements(workloads: list[str], runners: list[str]) -> list[tuple[str, str]]:
    """(workload, runner) in the order they run: Flott before `native`, which takes over its Spark settings."""
    return [
        (work, name) for work in workloads for name in RUNNERS if name in runners and work in CATALOGUE[name].workloads
    ]


def named(names: list[str]) -> list[str]:
    """The workloads that names stand for, each once."""
    return list(dict.fromkeys(work for name in names for work in FAMILIES.get(name, (name,))))


def expected_seconds(chosen: list[tuple[str, str]], results: list[dict], quick: bool) -> float:
    """How long the measurements will take, by what they took the last time."""
    if quick:
        return QUICK_SECONDS * len(chosen)
    took = {(found["workload"], found["runner"]): found["took_seconds"] for found in results if "took_seconds" in found}
    return sum(took.get(each, EXPECTED_SECONDS.get(each, USUAL_SECONDS)) for each in chosen)
