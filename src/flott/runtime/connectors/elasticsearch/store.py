"""Records as bulk actions, and the answers to them. Task side."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flott.datastream.connectors.base import BadRecord, WriterContext
from flott.datastream.connectors.elasticsearch import DocumentAction, ElasticsearchEmitter, ElasticsearchSink
from flott.errors import ProgramError
from flott.runtime.connectors.elasticsearch.client import Cluster, TooLarge
from flott.runtime.connectors.stores.actions import (
    DONE,
    FLUSH_BITS,
    SUPERSEDED,
    Action,
    ActionOutcome,
    ActionVerdict,
)
from flott.runtime.connectors.stores.json_documents import json_bytes
from flott.runtime.connectors.stores.rows import is_delete, is_outdated, mapping_of
from flott.runtime.connectors.stores.writer import Store

_CURRENT_VERSION = re.compile(r"current version \[(\d+)\]")
#: Errors of a single action that pass by themselves, or when the disk has room again.
_PASSING_ERRORS = ("es_rejected_execution_exception", "cluster_block_exception", "unavailable_shards_exception")
#: About how many bytes the line before a document takes.
_LINE_BYTES = 120

Key = tuple[str, str, str | None]  #: index, id, routing


class ElasticsearchStore(Store[Any]):
    """A cluster, as one subtask writes to it in one epoch."""

    def __init__(self, sink: ElasticsearchSink, context: WriterContext):
        self._sink = sink
        self._cluster = Cluster(sink)
        self.name = self._cluster.name
        self._emit = emit_function(sink.emitter, context)
        self._type = f',"_type":{json.dumps(sink.emitter.doc_type or "_doc")}' if sink.typed else ""
        self._made_up = f"{context.job_id}-{context.operator_id}-{context.epoch}-{context.subtask}"
        self._positions = 0
        #: Versions that another attempt at this epoch has given to documents; this attempt must not stay below.
        self._raised: dict[Any, int] = {}

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        for value in values:
            for change in self._emit(value):
                if change.id is None:
                    ident = f"{self._made_up}-{self._positions}"
                    self._positions += 1
                else:
                    ident = change.id
                body = None if change.document is None else json_bytes(change.document)
                yield Action(
                    (change.index, ident, change.routing), body, _LINE_BYTES + (0 if body is None else len(body))
                )

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        lines: list[bytes] = []
        for action in actions:
            lines.append(self._line(action, version))
            if action.body is not None:
                lines.append(action.body)
        lines.append(b"")
        try:
            answers = self._cluster.bulk(b"\n".join(lines))
        except TooLarge:
            return self._send_halves(actions, version)
        return [self._judged(action, answer, version) for action, answer in zip(actions, answers, strict=True)]

    def rejected(self, action: Action, reason: str) -> BadRecord:
        index, ident, _ = _key(action)
        return BadRecord(f"document {ident} of index {index}", reason, action.body, ident.encode())

    def _line(self, action: Action, version: int) -> bytes:
        index, ident, routing = _key(action)
        word = "delete" if action.body is None else "index"
        line = f'{{"{word}":{{"_index":{json.dumps(index)},"_id":{json.dumps(ident)}{self._type}'
        if routing is not None:
            line += f',"routing":{json.dumps(routing)}'
        if self._sink.external_versions:
            number = max(version, self._raised.get(action.key, 0)) if self._raised else version
            line += f',"version":{number},"version_type":"external_gte"'
        return (line + "}}").encode()

    def _send_halves(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        if len(actions) == 1:
            limit = "it is larger than a request to the server may be (http.max_content_length)"
            return [ActionOutcome(ActionVerdict.REJECTED, limit)]
        half = len(actions) // 2
        return [*self.send(actions[:half], version), *self.send(actions[half:], version)]

    def _judged(self, action: Action, answer: Mapping[str, Any], version: int) -> ActionOutcome:
        outcome, current = judged(answer, version)
        if current is not None:
            self._raised[action.key] = current
        return outcome


def judged(answer: Mapping[str, Any], version: int) -> tuple[ActionOutcome, int | None]:
    """Return what the answer to one action means and, if another attempt at the epoch got further, its version.

    >>> judged({"status": 404, "result": "not_found"}, 0)[0].verdict.name
    'DONE'
    """
    status, error = answer["status"], answer.get("error")
    if error is None:
        return DONE, None  # also 404 of a deletion: there is no such document, as was wanted
    kind, reason = (error.get("type", ""), error.get("reason", "")) if isinstance(error, dict) else ("", str(error))
    if status == 409:
        found = _CURRENT_VERSION.search(reason)
        current = int(found[1]) if found else 0
        if current >> FLUSH_BITS == version >> FLUSH_BITS and current > version:
            # An attempt at the same epoch was further with this document when it failed, because its buffer was sent
            # at other moments. It may have stopped before its last change, so this attempt must write over it.
            return ActionOutcome(ActionVerdict.RETRY, reason), current
        return SUPERSEDED, None
    if status == 429 or status >= 500 or kind in _PASSING_ERRORS:
        return ActionOutcome(ActionVerdict.RETRY, f"{kind}: {reason}"), None
    cause = error.get("caused_by") if isinstance(error, dict) else None
    detail = f" ({cause['reason']})" if isinstance(cause, dict) and cause.get("reason") else ""
    return ActionOutcome(ActionVerdict.REJECTED, f"{kind}: {reason}{detail}"), None


def emit_function(emitter: ElasticsearchEmitter, context: WriterContext) -> Callable[[Any], Iterable[DocumentAction]]:
    """Return the function from a record to its changes."""
    if emitter.function is not None:
        own = emitter.function

        def emit_own(value: Any) -> Iterable[DocumentAction]:
            made = own(value)
            if made is None:
                return ()
            return (made,) if isinstance(made, DocumentAction) else made

        return emit_own
    fields_of = mapping_of(context.record_type)
    key_field = emitter.key_field

    def emit(value: Any) -> Iterable[DocumentAction]:
        if is_outdated(value):
            return ()
        document = fields_of(value)
        index = str(_field(document, emitter.index, "index")) if emitter.is_dynamic else emitter.index
        ident = None if key_field is None else str(_field(document, key_field, "key"))
        if is_delete(value):
            if ident is None:
                raise ProgramError(f"To delete a document takes a key field: give one to the emitter. Found {value!r}.")
            return (DocumentAction(index, ident, None),)
        return (DocumentAction(index, ident, document),)

    return emit


def _field(document: Mapping[str, Any], name: str, role: str) -> Any:
    value = document.get(name)
    if value is None:
        raise ProgramError(f"Found no field {name!r}, which is the {role}, in the record {dict(document)!r}.")
    return value


def _key(action: Action) -> Key:
    key: Any = action.key
    return key  # type: ignore[no-any-return]
