"""Read and write JSON, with invalid lines in a side output: ``python examples/process_json_data.py``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flott.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

LINES = [
    '{"sensor": "attic", "celsius": 31.5, "place": {"country": "Norway", "city": "Bergen"}}',
    '{"sensor": "cellar", "celsius": 12.0, "place": {"country": "Norway", "city": "Bergen"}}',
    '{"sensor": "roof", "celsius": 38',
    '{"sensor": "garden", "celsius": 27.5, "place": {"country": "Kenya", "city": "Kisumu"}}',
    '{"sensor": "harbour", "place": {"country": "Kenya", "city": "Mombasa"}}',
]

UNREADABLE = OutputTag("unreadable", str)


class Read(ProcessFunction[str, Any]):
    """Parses lines to dicts. An incomplete line, or one without a field, goes to a side output with the reason."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[Any]:
        try:
            reading = json.loads(value)
            yield {"city": reading["place"]["city"], "sensor": reading["sensor"], "celsius": reading["celsius"]}
        except (json.JSONDecodeError, KeyError) as error:
            yield UNREADABLE, f"{type(error).__name__}: {value}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    readings = env.from_collection(LINES).process(Read())
    (
        readings.map(lambda reading: {**reading, "fahrenheit": reading["celsius"] * 9 / 5 + 32})
        .filter(lambda reading: reading["celsius"] > 20)
        .map(json.dumps)
        .print()
    )
    readings.get_side_output(UNREADABLE).print("unreadable")
    env.execute("process JSON data")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
