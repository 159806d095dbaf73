"""Keep records by distance, not by time: ``python examples/windowing/evictor.py``.

The program emits the top speed of a car over its last 50 metres, every 100 metres. The window contains all positions. A
delta trigger fires when the car has moved far enough, and an evictor removes positions that are too far behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flott.datastream import StreamExecutionEnvironment, WindowFunction
from flott.datastream.window import DeltaEvictor, DeltaTrigger, GlobalWindow, GlobalWindows

Position = tuple[str, int, int]  #: car, metres from the start, kilometres per hour

POSITIONS: list[Position] = [
    ("red", 0, 0), ("red", 30, 40), ("red", 80, 70), ("red", 110, 60), ("red", 150, 90), ("red", 190, 75),
    ("red", 230, 50), ("red", 290, 65), ("red", 340, 80),
]  # fmt: skip


def metres(one: Position, other: Position) -> float:
    return other[1] - one[1]


class TopSpeed(WindowFunction[Position, str, str, GlobalWindow]):
    def apply(self, key: str, window: GlobalWindow, inputs: Iterable[Position]) -> Iterator[str]:
        seen = list(inputs)
        yield f"{key} at {seen[-1][1]} m: at most {max(speed for _, _, speed in seen)} km/h since {seen[0][1]} m"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    (
        env.from_collection(POSITIONS)
        .key_by(lambda position: position[0])
        .window(GlobalWindows.create())
        .trigger(DeltaTrigger.of(100, metres))
        .evictor(DeltaEvictor.of(50, metres))
        .apply(TopSpeed())
        .print()
    )
    env.execute("an evictor")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
