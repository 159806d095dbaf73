"""Emit a result for every three records of a key: ``python examples/windowing/tumbling_count_window.py``.

Count windows do not depend on time: a window fires when it has its records. A window that is not full at the end emits
no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flott.datastream import StreamExecutionEnvironment, WindowFunction
from flott.datastream.window import CountWindow

Bottle = tuple[str, int]  #: colour, number

BOTTLES: list[Bottle] = [
    ("green", 1), ("brown", 2), ("green", 3), ("green", 4), ("brown", 5), ("green", 6), ("brown", 7),
]  # fmt: skip


class Crate(WindowFunction[Bottle, str, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[Bottle]) -> Iterator[str]:
        yield f"crate {window.id + 1} of {key} bottles: {[number for _, number in inputs]}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    env.from_collection(BOTTLES).key_by(lambda bottle: bottle[0]).count_window(3).apply(Crate()).print()
    env.execute("count windows")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
