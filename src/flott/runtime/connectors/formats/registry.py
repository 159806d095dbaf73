"""Asks a schema registry with Confluent's API. Task side.

A schema never changes, so an id is asked for once in each process. A registry that does not answer fails the epoch, and
the restart strategy decides: the records are not bad.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import httpx

from flott.common._secrets import without_secrets
from flott.datastream.formats.schema_registry import SchemaRegistry
from flott.errors import ConnectorError, ProgramError, TypeMismatchError

_FIRST_PAUSE_SECONDS = 0.1
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema, and those that it refers to, by the names under which it does."""

    text: str
    kind: str = "AVRO"  #: or PROTOBUF, JSON
    references: tuple[tuple[str, str], ...] = ()


class RegistryClient:
    """The schemas of one registry, as far as this process has asked for them."""

    def __init__(self, registry: SchemaRegistry):
        self._registry = registry
        self._by_id: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[str, str, bool], int] = {}
        login = (registry.username, registry.password or "") if registry.username is not None else None
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json"}
        if registry.bearer_token is not None:
            headers["Authorization"] = f"Bearer {registry.bearer_token}"
        self._http = httpx.Client(
            timeout=registry.timeout_ms / 1000, auth=login, headers=headers, verify=_verification(registry)
        )

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id. Raises ``TypeMismatchError`` if the registry does not have it."""
        found = self._by_id.get(schema_id)
        if found is None:
            status, answer = self._ask("GET", f"/schemas/ids/{schema_id}")
            if status == 404:
                raise TypeMismatchError(f"{self._registry!r} has no schema with the id {schema_id}.")
            found = self._by_id[schema_id] = self._registered(answer)
        return found

    def id_of(self, subject: str, text: str, register: bool, kind: str = "AVRO") -> int:
        """Return the id of a schema, which is registered if it is new and that is allowed."""
        key = (subject, text, register)
        if key not in self._ids:
            path = f"/subjects/{quote(subject, safe='')}"
            body = {"schema": text} | ({} if kind == "AVRO" else {"schemaType": kind})
            status, answer = self._ask("POST", f"{path}/versions" if register else path, body)
            if status == 404:
                raise ProgramError(
                    f"The schema is not registered under {subject!r} in {self._registry!r}. Register it, or allow that"
                    " with auto_register=True."
                )
            if status in (409, 422):
                raise ProgramError(
                    f"The schema registry {self._registry!r} refuses the schema for {subject!r}: {_message(answer)}."
                    " Change the schema so that it is compatible with the registered ones."
                )
            self._ids[key] = int(answer["id"])
        return self._ids[key]

    def _registered(self, answer: dict[str, Any], depth: int = 0) -> RegisteredSchema:
        references: dict[str, str] = {}
        for each in answer.get("references") or ():
            if depth > 20:
                raise ConnectorError(f"The schemas of {self._registry!r} refer to each other without end.")
            path = f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
            status, found = self._ask("GET", path)
            if status != 200:
                raise ConnectorError(f"A schema refers to {path}, which {self._registry!r} does not have.")
            inner = self._registered(found, depth + 1)
            references |= {**dict(inner.references), each["name"]: inner.text}  # what is referred to comes first
        return RegisteredSchema(answer["schema"], answer.get("schemaType") or "AVRO", tuple(references.items()))

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the answer; raises ``ConnectorError`` if there is none after some attempts."""
        problem = ""
        for attempt in range(self._registry.attempts):
            if attempt:
                time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                content = None if body is None else json.dumps(body)
                reply = self._http.request(
                    method, self._registry.url + path, content=content, headers={"Content-Type": _MEDIA_TYPE}
                )
            except httpx.HTTPError as error:
                problem = without_secrets(f"{type(error).__name__} {error}".strip(), *self._secrets())
                continue
            if reply.status_code in (401, 403):
                raise ConnectorError(
                    f"The schema registry {self._registry!r} refuses access (status {reply.status_code}): check"
                    " username, password or token."
                )
            if reply.status_code in (429,) or reply.status_code >= 500:
                problem = f"status {reply.status_code}: {without_secrets(reply.text[:200], *self._secrets())}"
                continue
            try:
                return reply.status_code, _checked(reply)
            except ValueError as error:
                raise ConnectorError(
                    f"{self._registry!r} answers {reply.text[:120]!r} to {path}: {error}. Is it a schema registry?"
                ) from None
        raise ConnectorError(
            f"The schema registry {self._registry!r} does not answer, {self._registry.attempts} times: {problem}."
        )

    def _secrets(self) -> tuple[str | None, ...]:
        return self._registry.password, self._registry.bearer_token


def _checked(reply: httpx.Response) -> Any:
    answer = reply.json()
    if reply.status_code == 404 and not (isinstance(answer, dict) and "error_code" in answer):
        raise ValueError("status 404 without an error code")
    if reply.status_code not in (200, 404, 409, 422):
        raise ValueError(f"status {reply.status_code}")
    if reply.status_code == 200 and not (isinstance(answer, dict) and answer.keys() & {"schema", "id"}):
        raise ValueError("it holds no schema")
    return answer


def _message(answer: Any) -> str:
    return str(answer.get("message", answer))[:300].rstrip(".") if isinstance(answer, dict) else str(answer)[:300]


def _verification(registry: SchemaRegistry) -> Any:
    if registry.ca_file is None and registry.certificate_file is None:
        return True
    try:
        context = ssl.create_default_context(cafile=registry.ca_file)
        if registry.certificate_file is not None:
            context.load_cert_chain(registry.certificate_file)
        return context
    except (OSError, ssl.SSLError) as error:
        raise ProgramError(f"The certificates for {registry!r} cannot be read: {error}.") from error


@lru_cache(maxsize=32)
def _client(registry: SchemaRegistry, process: int) -> RegistryClient:
    return RegistryClient(registry)


def registry_client(registry: SchemaRegistry) -> RegistryClient:
    """Return the client of this process: a forked one makes its own connections."""
    return _client(registry, os.getpid())
