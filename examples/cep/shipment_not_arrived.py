"""Detect what does not happen: ``python examples/cep/shipment_not_arrived.py``.

A parcel that was picked up must be delivered within two days. The pattern ends with an absence, so a match is complete
when the time is over and the delivery has not come.
"""

from __future__ import annotations

from typing import NamedTuple

from flott.cep import CEP, Pattern
from flott.common import Duration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment

HOUR_MS = 3_600_000


class Scan(NamedTuple):
    parcel: str
    event: str
    hour: int


SCANS = [
    Scan("A1", "picked up", 0), Scan("B2", "picked up", 5), Scan("C3", "picked up", 3), Scan("A1", "delivered", 30),
    Scan("D4", "picked up", 40), Scan("B2", "delivered", 52), Scan("C3", "delivered", 70),
]  # fmt: skip


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(6)).with_timestamp_assigner(
        lambda scan, _: scan.hour * HOUR_MS
    )
    scans = env.from_collection(SCANS).assign_timestamps_and_watermarks(in_event_time)
    missing = (
        Pattern[Scan].begin("picked up").where(lambda scan: scan.event == "picked up")
        .not_followed_by("delivered").where(lambda scan: scan.event == "delivered")
        .within(Duration.of_days(2))
    )  # fmt: skip
    CEP.pattern(scans.key_by(lambda scan: scan.parcel), missing).select(
        lambda match: f"parcel {match['picked up'][0].parcel} of hour {match['picked up'][0].hour} has not arrived"
    ).uid("missing").print()
    env.execute("shipment not arrived")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
