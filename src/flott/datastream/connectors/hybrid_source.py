"""A source that reads several sources one after the other. A specification only: see ``flott.runtime.connectors``.

history = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/2023").build()
source = HybridSource.builder(history).add_source(live).build()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flott.datastream.connectors.base import (
    Boundedness,
    Guarantee,
    Json,
    OnError,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.errors import ProgramError

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]


@dataclass(frozen=True)
class SourceSwitchContext:
    """What is known when one source has ended and the next one begins. It is the same in every attempt to switch."""

    previous_state: Json  #: the last state of the previous source's enumerator
    switched_at_ms: int  #: the time of the plan that found the previous source at its end


#: Makes a source when its turn comes. It is called on the driver and in tasks, and returns the same source each time.
SourceFactory = Callable[[SourceSwitchContext], Source[Any]]


@dataclass(frozen=True)
class HybridStage:
    """One of the sources: known from the beginning, or made when its turn comes."""

    source: Source[Any] | None
    factory: SourceFactory | None = None
    boundedness: Boundedness = Boundedness.BOUNDED

    def make(self, context: Json) -> Source[Any]:
        """Return the source, with the context that a plan or a checkpoint has kept."""
        if self.source is not None:
            return self.source
        assert self.factory is not None
        source = self.factory(SourceSwitchContext(context["previous_state"], context["switched_at_ms"]))
        if not isinstance(source, Source):
            raise ProgramError(f"A source factory of HybridSource returned {source!r}, expected a Source.")
        if source.boundedness is not self.boundedness:
            raise ProgramError(
                f"A source factory of HybridSource returned a source that is {source.boundedness.value}, but it was"
                f" added as {self.boundedness.value}. Say so in add_source(factory, boundedness)."
            )
        return source


@dataclass(frozen=True)
class HybridSource(Source[Any]):
    """Several sources, each read to its end before the next one begins. All but the last are bounded."""

    stages: tuple[HybridStage, ...]

    @staticmethod
    def builder(first_source: Source[Any]) -> HybridSourceBuilder:
        """Start building a source that begins with this one."""
        return HybridSourceBuilder().add_source(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self.stages[-1].boundedness

    @property
    def guarantee(self) -> Guarantee:
        known = [stage.source.guarantee for stage in self.stages if stage.source is not None]
        return min(known, key=lambda guarantee: guarantee.strength)

    @property
    def preferred_parallelism(self) -> int | None:
        wanted = [None if stage.source is None else stage.source.preferred_parallelism for stage in self.stages]
        return None if None in wanted else max(number for number in wanted if number is not None)

    @property
    def on_error(self) -> OnError:  # type: ignore[override]
        """The choice of the source that has a dead-letter sink, else of the first that continues after an error."""
        chosen = [stage.source.on_error for stage in self.stages if stage.source is not None]
        strict = OnError.fail()
        return max(chosen, key=lambda choice: (choice.dead_letters is not None, choice.keeps_going), default=strict)

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.hybrid_source import HybridEnumerator

        return HybridEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.hybrid_source import HybridReader

        return HybridReader(self)


class HybridSourceBuilder:
    """Collects the sources of a :class:`HybridSource`."""

    def __init__(self) -> None:
        self._stages: list[HybridStage] = []

    def add_source(
        self,
        source: Source[Any] | SourceFactory,
        boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
    ) -> HybridSourceBuilder:
        """Add what is read next. A function makes the source when the one before has ended, from a
        :class:`SourceSwitchContext`; then ``boundedness`` says of which kind it is going to be."""
        if self._stages and self._stages[-1].boundedness is not Boundedness.BOUNDED:
            raise ProgramError(
                "HybridSource reads a source to its end before the next one begins, so only the last may be unbounded:"
                f" source {len(self._stages)} never ends."
            )
        if isinstance(source, Source):
            stage = HybridStage(source, boundedness=source.boundedness)
        elif callable(source):
            stage = HybridStage(None, source, boundedness)
        else:
            raise ProgramError(f"add_source() takes a Source, or a function that makes one; found {source!r}.")
        self._stages.append(stage)
        return self

    def build(self) -> HybridSource:
        """Return the source."""
        sinks = {
            id(stage.source.on_error.dead_letters)
            for stage in self._stages
            if stage.source is not None and stage.source.on_error.dead_letters is not None
        }
        if len(sinks) > 1:
            raise ProgramError("The sources of a HybridSource share one dead-letter sink, found several.")
        return HybridSource(tuple(self._stages))
