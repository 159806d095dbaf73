"""A webhook sink, and a source of Server-Sent Events. Specifications only; not in PyFlink. Needs no extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from flott.common._secrets import Properties, without_secrets
from flott.common.serialization import DeserializationSchema, SerializationSchema, SimpleStringSchema
from flott.datastream.connectors._pushed import PushedSource
from flott.datastream.connectors._stores import RetryPolicy, StoreSink, check_on_rejected
from flott.datastream.connectors.base import Guarantee, OnError, SinkWriter, WriterContext
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.runtime.connectors.pushed.stream import PushedStream

__all__ = ["HttpSink", "HttpSinkBuilder", "ServerSentEventsSource"]


class Headers(Properties):
    """The headers of requests. Their text hides all values, since any of them may be a secret.

    >>> Headers({"x-tenant": "a"})
    Headers(['x-tenant'])
    """

    __slots__ = ()

    def __init__(self, values: Mapping[str, str] | None = None):
        super().__init__(values)
        for name, value in self.items():
            if not (name.isascii() and value.isascii()) or "\n" in value or "\r" in value:
                raise ProgramError(f"Headers are ASCII without line breaks; the header {name!r} is not.")

    def __repr__(self) -> str:
        return f"Headers({list(self)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Headers, (dict(self),)


@dataclass(frozen=True)
class HttpSink(StoreSink[Any]):
    """Sends records to a URL. Made by :class:`HttpSinkBuilder`.

    Each request has a header ``Idempotency-Key``. A repeated epoch sends its requests again with the same keys, so a
    server that remembers keys sees each of them once.

    >>> sink = HttpSink.builder().set_url("https://user:secret@example.org/hook").set_batch_size(100).build()
    >>> sink.address
    'https://user:******@example.org/hook'
    """

    url: str | Callable[[Any], str] = field(repr=False)
    method: str = "POST"
    headers: Headers = field(default_factory=Headers)
    serializer: SerializationSchema | None = None  #: None: JSON
    batch_size: int = 1  #: so many records make one request
    concurrent_requests: int = 1
    timeout_ms: int = 30_000
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    on_rejected: OnError = field(default_factory=OnError.fail)

    @staticmethod
    def builder() -> HttpSinkBuilder:
        """Start building a sink."""
        return HttpSinkBuilder()

    @property
    def address(self) -> str:
        """Return where requests go, without a password."""
        return without_secrets(self.url) if isinstance(self.url, str) else "the URL of each record"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.http.webhook import webhook_writer

        return webhook_writer(self, context)


class HttpSinkBuilder:
    """Collects the settings of an :class:`HttpSink`."""

    def __init__(self) -> None:
        self._url: str | Callable[[Any], str] | None = None
        self._settings: dict[str, Any] = {}

    def set_url(self, url: str | Callable[[Any], str]) -> Self:
        """Set where requests go: a URL, or a function from a record to a URL."""
        if isinstance(url, str):
            _check_url(url)
        self._url = url
        return self

    def set_method(self, method: str) -> Self:
        """Set the method, POST by default."""
        if method.upper() not in ("POST", "PUT", "PATCH", "DELETE"):
            raise ProgramError(f"A sink sends with POST, PUT, PATCH or DELETE, found {method!r}.")
        return self._with(method=method.upper())

    def set_headers(self, headers: Mapping[str, str]) -> Self:
        """Set headers of every request, such as ``Authorization``. Their values are never shown."""
        return self._with(headers=Headers({name.lower(): value for name, value in headers.items()}))

    def set_serializer(self, serializer: SerializationSchema) -> Self:
        """Set how a record becomes bytes; without it, a record becomes JSON."""
        return self._with(serializer=serializer)

    def set_batch_size(self, records: int) -> Self:
        """Set how many records make one request: a JSON array, or lines if there is a serializer."""
        return self._with(batch_size=_positive(records, "records in a request"))

    def set_concurrent_requests(self, requests: int) -> Self:
        """Set how many requests a subtask has open at the same time; with more than one their order is lost."""
        return self._with(concurrent_requests=_positive(requests, "requests at the same time"))

    def set_timeout(self, timeout_ms: int) -> Self:
        """Set how long to wait for a connection and for an answer."""
        return self._with(timeout_ms=_positive(timeout_ms, "milliseconds"))

    def set_retries(self, retries: RetryPolicy) -> Self:
        """Set how often and when a request is sent again."""
        return self._with(retries=retries)

    def set_on_rejected(self, on_rejected: OnError) -> Self:
        """Set what becomes of a request that the server refuses for good (most 4xx)."""
        return self._with(on_rejected=check_on_rejected(on_rejected))

    def build(self) -> HttpSink:
        """Return the sink."""
        if self._url is None:
            raise ProgramError("An HttpSink needs set_url() before build().")
        sink = replace(HttpSink(self._url), **self._settings)
        if sink.batch_size > 1 and not isinstance(sink.url, str):
            raise ProgramError("A request with several records has one URL: give set_url() a text, or leave batches.")
        return sink

    def _with(self, **settings: Any) -> Self:
        self._settings |= settings
        return self


@dataclass(frozen=True)
class ServerSentEventsSource(PushedSource):
    """Listens to a stream of Server-Sent Events; each event is a record, made of its data.

    The id of the last event is part of the checkpoint. After a failure the source asks for what comes after it
    (``Last-Event-ID``), so nothing is lost if the server keeps its events and gives them ids.

    >>> ServerSentEventsSource("https://example.org/prices").label
    'events of https://example.org/prices'
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=Headers)
    event_types: frozenset[str] | None = None  #: which events to read; None: all
    deserializer: DeserializationSchema = field(default_factory=SimpleStringSchema)
    on_error: OnError = field(default_factory=OnError.fail)
    capacity: int = 100_000
    timeout_ms: int = 30_000  #: for a connection and an answer
    idle_timeout_ms: int = 300_000  #: connect again if nothing came for so long, not even a comment

    def __post_init__(self) -> None:
        _check_url(self.url)
        object.__setattr__(self, "headers", Headers(self.headers))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE

    @property
    def label(self) -> str:
        return f"events of {without_secrets(self.url)}"

    def connection(self) -> PushedStream:
        from flott.runtime.connectors.http.events import EventStream

        return EventStream(self)


def _check_url(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise ProgramError(f"A URL begins with http:// or https://, found {without_secrets(url)!r}.")


def _positive(number: int, what: str) -> int:
    if number < 1:
        raise ProgramError(f"Found {number} {what}: it is at least 1.")
    return number
