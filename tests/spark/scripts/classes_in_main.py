"""A program whose record, state and function classes exist in the main script only; prints its results, sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import neighbour

from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor


@dataclass(frozen=True)
class Visit:
    user: str
    page: int


@dataclass
class History:
    pages: list[int] = field(default_factory=list)


class Seen(NamedTuple):
    user: str
    pages: tuple[int, ...]


class Remember(KeyedProcessFunction[str, Visit, Seen]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.history = runtime_context.get_state(ValueStateDescriptor("history"))

    def process_element(self, value: Visit, ctx: KeyedProcessFunction.Context[str]) -> Iterator[Seen]:
        history = self.history.value() or History()
        history.pages = sorted([*history.pages, value.page])
        self.history.update(history)
        yield Seen(ctx.get_current_key(), tuple(history.pages))


def longer(one: Seen, other: Seen) -> Seen:
    return max(one, other, key=lambda seen: len(seen.pages))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    visits = [Visit("ann" if page % 3 else "bob", page) for page in range(6)]
    seen = env.from_collection(visits).map(neighbour.Double()).key_by(lambda visit: visit.user).process(Remember())
    with seen.key_by(lambda value: value.user).reduce(longer).execute_and_collect("classes in main") as results:
        last = {value.user: value for value in results}
    for user in sorted(last):
        print(last[user])


if __name__ == "__main__":
    main()
