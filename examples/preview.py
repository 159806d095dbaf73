"""Show the first records of a stream before the program is finished: ``python examples/preview.py``.

``preview`` runs only the part of the program that leads to a stream, shows the first records as a table, and stops. No
sink is written. In a notebook, the last line of a cell would be ``stream.preview()``.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource


class Trip(NamedTuple):
    city: str
    kilometres: float
    fare: float


def trip(index: int) -> Trip:
    chance = random.Random(index)
    kilometres = round(chance.uniform(1, 25), 1)
    return Trip(chance.choice(["Bergen", "Kisumu", "Kobe"]), kilometres, round(3 + 1.8 * kilometres, 2))


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    trips = env.from_source(DataGeneratorSource(trip, count=5_000), WatermarkStrategy.no_watermarks(), "trips", Trip)
    trips.preview(5)

    far = trips.filter(lambda trip: trip.kilometres > 24.5).map(lambda trip: (trip.city, trip.fare))
    seen = far.preview(3)
    print(f"The first three of them pay {sum(fare for _, fare in seen):.2f}.")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
