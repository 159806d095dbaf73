"""Use the basic operations map, filter, flat_map, union and key_by: ``python examples/basic_operations.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flott.datastream import DataStream, StreamExecutionEnvironment


@dataclass(frozen=True)
class Parcel:
    country: str
    city: str
    grams: int
    items: tuple[str, ...]


MORNING = [
    Parcel("Norway", "Bergen", 900, ("lamp",)),
    Parcel("Kenya", "Nairobi", 1_200, ("kettle", "tea")),
    Parcel("Japan", "Kobe", 400, ("tea",)),
]
EVENING = [Parcel("Kenya", "Kisumu", 700, ("radio",)), Parcel("Norway", "Oslo", 2_100, ("skis", "wax"))]


def show(title: str, stream: DataStream[Any]) -> None:
    """Run the program up to a stream, and print the records of the stream."""
    print(title)
    with stream.execute_and_collect(title) as records:
        for record in records:
            print("  ", record)


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    parcels = env.from_collection(MORNING)

    show("map: pack each parcel, which makes it heavier", parcels.map(lambda p: replace(p, grams=p.grams + 50)))
    show("filter: the light ones", parcels.filter(lambda p: p.grams < 1_000))
    show("flat_map: what is inside", parcels.flat_map(lambda p: p.items))
    show("union: all parcels of the day, by city", parcels.union(env.from_collection(EVENING)).map(lambda p: p.city))

    weights = parcels.union(env.from_collection(EVENING)).map(lambda p: (p.country, p.grams))
    show("key_by and sum: the running weight for each country", weights.key_by(0).sum(1))
    show("key_by and reduce: the heaviest so far", weights.key_by(0).reduce(lambda a, b: max(a, b, key=lambda p: p[1])))


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
