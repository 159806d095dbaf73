"""Score texts with a model behind a service: ``python examples/async_model_inference.py``.

The service is slow, sometimes busy, and fails to answer once. Up to fifty calls run concurrently, so the latency of the
service does not limit the throughput. A call to a busy service is retried, and a text without a timely answer is
emitted
without a score. The results have the order of the texts. The service is a class below, so nothing has to be installed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from flott.common import Time
from flott.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flott.datastream.connectors.callable import CallableSink

REVIEWS = [
    "A wonderful little kettle, I love it",
    "Broken on arrival, and nobody answers my letters",
    "It boils water",
    "Great colour, great price, great kettle",
    "The lid is awful and the handle is worse",
    "🫖",
    "Slow, but quiet: good for early mornings",
    "Terrible. Simply terrible.",
    "I bought a second one for my mother, she is happy",
    "Love the shape, hate the whistle",
]


@dataclass(frozen=True)
class Scored:
    text: str
    score: float | None  #: from -1, an angry customer, to 1, a happy one; None: unknown


class ModelService:
    """A stand-in for the client of a model server, with delays."""

    KIND = frozenset({"wonderful", "love", "great", "good", "happy", "quiet"})
    UNKIND = frozenset({"broken", "nobody", "awful", "worse", "terrible", "hate", "slow"})

    def __init__(self) -> None:
        self._seen: set[str] = set()

    async def score(self, text: str) -> float:
        await asyncio.sleep(0.02 + len(text) % 7 / 50)
        if text not in self._seen and len(text) % 3 == 0:
            self._seen.add(text)
            raise ConnectionError("503: the model is busy")
        words = [word.strip(",.:").lower() for word in text.split()]
        if not any(map(str.isalpha, words)):
            await asyncio.sleep(3600)  # simulates a call without an answer
        votes = [(word in self.KIND) - (word in self.UNKIND) for word in words]
        return sum(votes) / (sum(map(abs, votes)) or 1)


class AskModel(AsyncFunction[str, Scored]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.service = ModelService()

    async def async_invoke(self, value: str) -> list[Scored]:
        return [Scored(value, await self.service.score(value))]

    def timeout(self, value: str) -> list[Scored]:
        return [Scored(value, None)]


def show(scored: Scored) -> None:
    bar = "?" if scored.score is None else "█" * round(5 * abs(scored.score))
    left, right = ("", bar) if (scored.score or 0) >= 0 else (bar, "")
    print(f"  {left:>5}│{right:<5}  {scored.text}")


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    when_busy: AsyncRetryStrategy[Scored] = AsyncRetryStrategy.exponential_backoff(
        max_attempts=3,
        initial_delay=50,
        max_retry_delay=500,
        multiplier=2.0,
        result_predicate=None,
        exception_predicate=lambda error: isinstance(error, ConnectionError),
    )
    scored = AsyncDataStream.ordered_wait_with_retry(
        env.from_collection(REVIEWS), AskModel(), Time.seconds(2), when_busy, capacity=50
    )
    scored.sink_to(CallableSink(show))
    env.execute("async model inference")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
