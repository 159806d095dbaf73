"""A source of the messages of a websocket. A specification only; not in PyFlink. Extra: ``flott[websocket]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flott.common._secrets import without_secrets
from flott.common.serialization import DeserializationSchema, SimpleStringSchema
from flott.datastream.connectors._pushed import PushedSource
from flott.datastream.connectors.base import OnError
from flott.datastream.connectors.http import Headers
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.runtime.connectors.pushed.stream import PushedStream

__all__ = ["WebSocketSource"]


@dataclass(frozen=True)
class WebSocketSource(PushedSource):
    """Connects to a websocket; each message is a record. It ends when the server closes normally (code 1000).

    >>> source = WebSocketSource("wss://example.org/feed", messages_on_open=('{"subscribe": "trades"}',))
    >>> source.label
    'websocket wss://example.org/feed'
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=Headers)
    messages_on_open: tuple[str, ...] = field(default=(), repr=False)  #: sent first, for example to subscribe
    reconnects: bool = False  #: connect again also after the server has closed normally
    deserializer: DeserializationSchema = field(default_factory=SimpleStringSchema)
    on_error: OnError = field(default_factory=OnError.fail)
    capacity: int = 100_000
    timeout_ms: int = 30_000  #: for a connection, and for the answer to a ping
    max_message_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.url.startswith(("ws://", "wss://")):
            raise ProgramError(
                f"The URL of a websocket begins with ws:// or wss://, found {without_secrets(self.url)!r}."
            )
        object.__setattr__(self, "headers", Headers(self.headers))

    @property
    def label(self) -> str:
        return f"websocket {without_secrets(self.url)}"

    def connection(self) -> PushedStream:
        from flott.runtime.connectors.websocket import WebSocketStream

        return WebSocketStream(self)
