"""A module that the program ``tally`` imports, and whose classes travel as records and are kept as state."""

from __future__ import annotations

import json
from dataclasses import dataclass

from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import ValueStateDescriptor


@dataclass(frozen=True)
class Tally:
    key: int
    count: int

    def text(self) -> str:
        return json.dumps([self.key, self.count])


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.tally = runtime_context.get_state(ValueStateDescriptor("tally"))

    def process_element(self, value, ctx):
        key = ctx.get_current_key()
        tally = self.tally.value() or Tally(key, 0)
        tally = Tally(key, tally.count + 1)
        self.tally.update(tally)
        if tally.count % 1000 == 0:
            print(f"key {key} has {tally.count}")
        yield tally
