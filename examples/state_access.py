"""Four kinds of keyed state in one function: ``python examples/state_access.py``.

For every player the function keeps the best score (a value), the last three scores (a list), how often each level was
played (a map) and the points of all games (reducing state). All of it belongs to the player of the record at hand, is
saved with every epoch and is there again after a crash.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

#: (player, level, score)
GAMES = [
    ("ada", "forest", 30),
    ("bob", "forest", 10),
    ("ada", "castle", 50),
    ("ada", "forest", 20),
    ("bob", "desert", 40),
    ("ada", "forest", 60),
]
Game = tuple[str, str, int]


class Profile(KeyedProcessFunction[str, Game, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.best = runtime_context.get_state(ValueStateDescriptor("best", int))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", int))
        self.levels = runtime_context.get_map_state(MapStateDescriptor("levels", str, int))
        self.points = runtime_context.get_reducing_state(ReducingStateDescriptor("points", operator.add, int))

    def process_element(self, value: Game, ctx: KeyedProcessFunction.Context[str]) -> Iterator[str]:
        player, level, score = value
        self.best.update(max(score, self.best.value() or 0))
        self.recent.update([*self.recent.get(), score][-3:])
        self.levels.put(level, (self.levels.get(level) or 0) + 1)
        self.points.add(score)
        favourite, times = max(self.levels.items(), key=lambda played: played[1])
        yield (
            f"{player}: best {self.best.value()}, lately {list(self.recent.get())}, {self.points.get()} points,"
            f" mostly {favourite} ({times})"
        )


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    env.from_collection(GAMES).key_by(lambda game: game[0]).process(Profile()).uid("profiles").print()
    env.execute("state access")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
