"""Use four kinds of keyed state in one function: ``python examples/state_access.py``.

For every player, the function keeps the best score (a value), the last three scores (a list), how often each level was
played (a map) and the points of all games (reducing state). All state belongs to the player of the current record. It
is saved with every epoch and restored after a crash. The state of a player who has not played for a month expires.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from flott.common import Time
from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
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
        best = ValueStateDescriptor("best", int)
        recent = ListStateDescriptor("recent", int)
        levels = MapStateDescriptor("levels", str, int)
        points = ReducingStateDescriptor("points", operator.add, int)
        a_month = (
            StateTtlConfig.new_builder(Time.days(30))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        for descriptor in (best, recent, levels, points):
            descriptor.enable_time_to_live(a_month)
        self.best = runtime_context.get_state(best)
        self.recent = runtime_context.get_list_state(recent)
        self.levels = runtime_context.get_map_state(levels)
        self.points = runtime_context.get_reducing_state(points)

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
