"""Emit several outputs from one function: ``python examples/side_outputs.py``.

A letter goes to the main output. Heavy letters, and those without an address, go to side outputs with their own types.
A stream returns a side output by its tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

HEAVY = OutputTag("heavy", tuple[str, int])
RETURNED = OutputTag("returned", str)

#: (content, recipient, grams)
MAIL = [
    ("letter", "Ada", 20),
    ("parcel", "Bob", 4_000),
    ("letter", "", 20),
    ("book", "Ada", 700),
    ("card", "Cem", 10),
]
Item = tuple[str, str, int]


class Sort(ProcessFunction[Item, str]):
    def process_element(self, value: Item, ctx: ProcessFunction.Context) -> Iterator[Any]:
        what, recipient, grams = value
        if not recipient:
            yield RETURNED, f"{what} without an address"
        elif grams > 500:
            yield HEAVY, (f"{what} for {recipient}", grams)
        else:
            yield f"{what} for {recipient}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    sorted_mail = env.from_collection(MAIL).process(Sort())
    sorted_mail.print("bicycle")
    sorted_mail.get_side_output(HEAVY).map(lambda item: f"{item[0]}, {item[1] / 1000} kg").print("van")
    sorted_mail.get_side_output(RETURNED).print("returned")
    env.execute("side outputs")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
