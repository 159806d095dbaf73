"""What the latency benchmark measures: engines, loads, and which engine takes which load. Data and decisions, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LITTLE, MUCH = 10_000, 1_000_000
#: Records a second that every engine was seen to keep, so that all can be compared at one rate.
COMMON_RATE = 1_000
ROUND = 100


@dataclass(frozen=True)
class Engine:
    """How an engine is started: the module `bench.latency.<module>` and its variant."""

    module: str
    variant: str
    title: str
    settle_s: float = 1.0  #: before the paced records begin


ENGINES = {
    "pipelined": Engine("flott", "pipelined", "Flott, pipelined"),
    "pipelined-rocksdb": Engine("flott", "pipelined-rocksdb", "Flott, pipelined, RocksDB"),
    "epochs": Engine("flott", "epochs", "Flott, epochs"),
    "flink-java": Engine("flink", "", "Flink, Java"),
    "pyflink-thread": Engine("pyflink", "thread", "PyFlink, thread mode"),
    "pyflink-process": Engine("pyflink", "process", "PyFlink, process mode", settle_s=10.0),
    "spark-tws": Engine("spark", "tws", "Spark `transformWithState`"),
    "spark-rtm": Engine("spark", "rtm", "the same, Real-Time Mode"),
}
#: What is measured without being asked for: all but the other backend.
USUAL = tuple(name for name in ENGINES if name != "pipelined-rocksdb")
#: The one whose maximum gives the rates.
FASTEST = "pipelined"


@dataclass(frozen=True)
class Load:
    """A number of keys, and a rate: a share of Flott's maximum, or the common one."""

    keys: int
    share: float | None  #: None: the common rate

    @property
    def name(self) -> str:
        """Return what results and tables call it."""
        rate = "common" if self.share is None else f"{self.share:.0%}"
        return f"{rate}-{'1m' if self.keys == MUCH else '10k'}"

    def rate(self, maxima: dict[str, float]) -> int:
        """Return records a second."""
        if self.share is None:
            return COMMON_RATE
        return max(ROUND, int(maxima[str(self.keys)] * self.share) // ROUND * ROUND)


SHARES = (0.1, 0.5, 0.8)
#: The lighter ones first: an engine that does not keep a rate is not tried at a higher one.
LOADS = (
    Load(LITTLE, None),
    *(Load(LITTLE, share) for share in SHARES),
    Load(MUCH, None),
    Load(MUCH, 0.5),
)
QUICK = (Load(LITTLE, None),)
#: With a million keys at the common rate, one mode of PyFlink is enough: filling its state takes it minutes.
#: Epochs take theirs at half the maximum; the refusal of Real-Time Mode is the same for all loads.
LEFT_OUT = {
    ("pyflink-process", "common-1m"),
    ("epochs", "common-1m"),
    ("spark-tws", "common-1m"),
}
ONCE = {"spark-rtm": "common-10k"}


def measurements(engines: Sequence[str], loads: Sequence[Load]) -> list[tuple[str, Load]]:
    """Return (engine, load) in the order they run: all loads of an engine, the lighter ones first."""
    return [
        (engine, load)
        for engine in engines
        for load in loads
        if (engine, load.name) not in LEFT_OUT and ONCE.get(engine, load.name) == load.name
    ]


def too_much(engine: str, rate: int, keys: int, results: Sequence[dict]) -> str | None:
    """Return why a measurement is not worth its time: the engine did not keep a lower rate, with no more keys."""
    for found in results:
        failed = found["engine"] == engine and "does not keep" in found.get("missing", "")
        if failed and found["rate"] <= rate and found["keys"] <= keys:
            return f"not tried: it does not keep {found['rate']:,} records a second"
    return None


def kept(last: Sequence[dict], chosen: Sequence[tuple[str, Load]], maxima: dict[str, float]) -> list[dict]:
    """Return the results of an earlier run that are not measured again and were taken at the same rates."""
    again = {(engine, load.name) for engine, load in chosen}
    rates = {load.name: load.rate(maxima) for load in LOADS}
    return [
        found
        for found in last
        if (found["engine"], found["load"]) not in again and rates.get(found["load"]) == found["rate"]
    ]
