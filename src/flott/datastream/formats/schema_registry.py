"""A schema registry with Confluent's API: where it is, and how schemas are named in it. Values only. Flott only.

Confluent's own, Apicurio (``/apis/ccompat/v7``), Karapace and Redpanda have this API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flott.common._secrets import without_secrets
from flott.errors import ProgramError

__all__ = ["SchemaRegistry", "SubjectNames"]


@dataclass(frozen=True)
class SchemaRegistry:
    """The address of a registry, and what it needs to be asked. Its text shows no secret.

    >>> SchemaRegistry("http://registry:8081", username="flott", password="secret")
    SchemaRegistry('http://registry:8081')
    """

    url: str
    username: str | None = None
    password: str | None = None
    bearer_token: str | None = None
    ca_file: str | None = None  #: certificates of the authority, in PEM, if not one that the machine knows
    certificate_file: str | None = None  #: the client's own, in PEM, with its key
    timeout_ms: int = 10_000  #: of one request
    attempts: int = 4  #: before the registry counts as unreachable

    def __post_init__(self) -> None:
        if not str(self.url).startswith(("http://", "https://")):
            raise ProgramError(f"A schema registry has an address such as 'http://registry:8081', found {self.url!r}.")
        if self.timeout_ms <= 0 or self.attempts < 1:
            raise ProgramError("The time-out and the attempts of a schema registry are above 0.")
        object.__setattr__(self, "url", self.url.rstrip("/"))

    def __repr__(self) -> str:
        return f"SchemaRegistry({without_secrets(self.url)!r})"


class SubjectNames:
    """The names under which schemas are registered, by Confluent's strategies.

    >>> SubjectNames.topic("orders"), SubjectNames.topic("orders", is_key=True)
    ('orders-value', 'orders-key')
    """

    @staticmethod
    def topic(topic: str, is_key: bool = False) -> str:
        """Return the subject of a topic's values or keys: all of them have one schema (TopicNameStrategy)."""
        return f"{topic}-{'key' if is_key else 'value'}"

    @staticmethod
    def record(schema: Any) -> str:
        """Return the subject of a record, wherever it is written (RecordNameStrategy)."""
        return _full_name(schema)

    @staticmethod
    def topic_record(topic: str, schema: Any) -> str:
        """Return the subject of a record in a topic (TopicRecordNameStrategy)."""
        return f"{topic}-{_full_name(schema)}"


def _full_name(schema: Any) -> str:
    parsed = json.loads(str(schema))
    if not isinstance(parsed, dict) or "name" not in parsed:
        raise ProgramError(f"Expected the Avro schema of a record, which has a name, found {str(schema)[:120]!r}.")
    name, namespace = parsed["name"], parsed.get("namespace")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def as_registry(registry: SchemaRegistry | str) -> SchemaRegistry:
    """Return the registry; a text is its address."""
    return SchemaRegistry(registry) if isinstance(registry, str) else registry
