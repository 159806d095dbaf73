"""What sources have in common that are sent messages and cannot ask for them again. Specifications."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from flott.common.serialization import DeserializationSchema
from flott.datastream.connectors.base import Boundedness, Guarantee, OnError, Source, SourceReader, SplitEnumerator

if TYPE_CHECKING:
    from flott.runtime.connectors.pushed.stream import PushedStream


class PushedSource(Source[Any]):
    """A source with one connection, on the driver. Subclasses are frozen dataclasses with these fields.

    What has arrived is put into the plan of an epoch, which is durable before the epoch runs: a repeated epoch sees the
    same messages. What arrives while the driver is dead, or was not planned when it died, is lost, unless the server
    sends it again.
    """

    deserializer: DeserializationSchema
    on_error: OnError
    capacity: int  #: how many messages wait on the driver at most; then it stops reading from the connection

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.NONE

    @property
    def preferred_parallelism(self) -> int:
        return 1

    @property
    @abstractmethod
    def label(self) -> str:
        """Return what it is and where, for messages; without secrets."""

    @abstractmethod
    def connection(self) -> PushedStream:
        """Return a connection that is not open yet."""

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.pushed.enumerator import PushedEnumerator

        return PushedEnumerator(self.label, self.connection, self.capacity)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.pushed.reader import PushedReader

        return PushedReader(self.label, self.deserializer, self.on_error)
