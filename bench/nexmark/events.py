"""The events of Nexmark, made by numpy: the same for every engine, because they are in files.

The proportions are the benchmark's: of 50 events one is a person, three are auctions and 46 are bids; most bids go to a
few hot auctions and come from a few hot bidders. Names, prices and texts have the benchmark's shapes and lengths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Events of one second of event time.
PER_SECOND = 10_000
FIRST_MS = 1_753_142_400_000
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype="S1")


def make_events(count: int, seed: int = 7, per_second: int = PER_SECOND) -> pa.Table:
    """Return so many events in the order of event time."""
    random = np.random.default_rng(seed)
    number = np.arange(count)
    epoch, place = number // 50, number % 50
    kind = np.where(place == 0, 0, np.where(place <= 3, 1, 2)).astype(np.int32)
    time = pa.array(FIRST_MS + number * 1000 // per_second, pa.timestamp("ms"))
    persons = epoch + 1000
    auctions = epoch * 3 + np.minimum(np.maximum(place - 1, 0), 2) + 1000
    last_person, last_auction = np.maximum(persons, 1000), np.maximum(auctions, 1000)
    return pa.table(
        {
            "event_type": kind,
            "person": _masked(_persons(random, persons, time), kind == 0),
            "auction": _masked(_auctions(random, auctions, last_person, time), kind == 1),
            "bid": _masked(_bids(random, last_auction, last_person, time, count), kind == 2),
        }
    )


def _masked(struct: pa.StructArray, wanted: Any) -> pa.Array:
    return pa.StructArray.from_arrays(struct.flatten(), fields=list(struct.type), mask=pa.array(~wanted))


def _words(random: Any, count: int, length: int) -> pa.Array:
    """Return texts of random letters: drawn from a pool, because what is in them does not matter."""
    pool = ["".join(row) for row in _LETTERS.astype(str)[random.integers(0, 26, (997, length))]]
    return pa.array(pool).take(pa.array(random.integers(0, 997, count)))


def _persons(random: Any, ids: Any, time: pa.Array) -> pa.StructArray:
    count = len(ids)
    names = [f"{first} {last}" for first in _FIRST for last in _LAST]
    pick = lambda pool: pa.array(pool).take(pa.array(random.integers(0, len(pool), count)))  # noqa: E731
    name = pick(names)
    columns = {
        "id": pa.array(ids),
        "name": name,
        "emailAddress": pick([f"{text}@{text[::-1]}.com" for text in ("vwer", "ysrq", "plmk", "eofd", "ccxz")]),
        "creditCard": pick([f"{a} {b} {a} {b}" for a in range(1000, 9000, 997) for b in range(1000, 9000, 991)]),
        "city": pick(_CITIES),
        "state": pick(_STATES),
        "dateTime": time,
        "extra": _words(random, count, 60),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _auctions(random: Any, ids: Any, last_person: Any, time: pa.Array) -> pa.StructArray:
    count = len(ids)
    price = np.exp(random.random(count) * np.log(10) * 6).astype(np.int64) * 100
    life = (random.integers(1, 21, count) * 1000).astype(np.int64)
    hot = random.random(count) < 0.75
    seller = np.where(hot, last_person // 100 * 100, np.maximum(last_person - random.integers(0, 1000, count), 1000))
    columns = {
        "id": pa.array(ids),
        "itemName": _words(random, count, 20),
        "description": _words(random, count, 100),
        "initialBid": pa.array(price),
        "reserve": pa.array(price + 1000),
        "dateTime": time,
        "expires": pa.array(time.cast(pa.int64()).to_numpy() + life, pa.timestamp("ms")),
        "seller": pa.array(seller),
        "category": pa.array(random.integers(10, 15, count)),
        "extra": _words(random, count, 40),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _bids(random: Any, last_auction: Any, last_person: Any, time: pa.Array, count: int) -> pa.StructArray:
    hot_auction = random.random(count) < 0.5
    auction = np.where(
        hot_auction, last_auction // 100 * 100, np.maximum(last_auction - random.integers(0, 100, count), 1000)
    )
    hot_bidder = random.random(count) < 0.75
    bidder = np.where(
        hot_bidder, last_person // 100 * 100 + 1, np.maximum(last_person - random.integers(0, 1000, count), 1000)
    )
    price = np.exp(random.random(count) * np.log(10) * 6).astype(np.int64) * 100
    many = [f"channel-{number}" for number in range(10_000)]
    urls = [f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1" for a, b, c in _folders(random)]
    urls += [f"{url}&channel_id={number * 7919}" for number, url in enumerate(urls)]
    hot = random.random(count) < 0.5
    channel = np.where(hot, random.integers(0, 4, count), 4 + random.integers(0, 10_000, count))
    columns = {
        "auction": pa.array(auction),
        "bidder": pa.array(bidder),
        "price": pa.array(price),
        "channel": pa.array(_CHANNELS + many).take(pa.array(channel)),
        "url": pa.array(urls).take(pa.array(random.integers(0, len(urls), count))),
        "dateTime": time,
        "extra": _words(random, count, 50),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _folders(random: Any) -> list[tuple[str, str, str]]:
    words = ["".join(row) for row in _LETTERS.astype(str)[random.integers(0, 26, (600, 5))]]
    return list(zip(words[:200], words[200:400], words[400:], strict=True))


def write_events(folder: Path, count: int, files: int = 2) -> None:
    """Write events as JSON lines and as Parquet, each in so many files, unless they are there."""
    done = folder / f"done-{count}"
    if done.exists():
        return
    events = make_events(count)
    for kind in ("json", "parquet"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(files):
        # Every file has events of all times, so that splits advance together.
        part = events.take(pa.array(np.arange(number, count, files)))
        pq.write_table(part, folder / "parquet" / f"events-{number}.parquet", row_group_size=100_000)
        _write_json(part, folder / "json" / f"events-{number}.json")
    done.touch()


def _write_json(events: pa.Table, path: Path) -> None:
    """Write rows as JSON lines with timestamps in SQL's form."""
    import json

    with path.open("w", encoding="utf-8") as file:
        for batch in events.to_batches(max_chunksize=10_000):
            lines = []
            for row in batch.to_pylist():
                for name in ("person", "auction", "bid"):
                    if row[name] is not None:
                        for key, value in row[name].items():
                            if hasattr(value, "isoformat"):
                                row[name][key] = value.isoformat(" ", "milliseconds")
                lines.append(json.dumps(row))
            file.write("\n".join(lines) + "\n")
