"""State and records of a job as an inspector sends them. Values are of users: text to be shown, never to be run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from flott.rest.shapes.job.orders import OperationStatus, TriggerId
from flott.rest.throwable import FailureCause


class ShownValue(TypedDict):
    """A value as text; as JSON too, if it has such a form and is small."""

    text: str
    type: str
    json: Any
    truncated: bool


class ReadableCheckpoint(TypedDict):
    checkpoint: int
    completed: int
    path: str


class ReadableCheckpoints(TypedDict):
    checkpoints: list[ReadableCheckpoint]


StateOfOperator = TypedDict(
    "StateOfOperator",
    {
        "name": str,
        "kind": str,
        "key-type": str | None,
        "value-type": str | None,
        "map-key-type": str | None,
        "size": int,
        "keyed": bool,
        "time-to-live": int | None,
    },
)
OperatorWithState = TypedDict(
    "OperatorWithState",
    {
        "id": str,
        "uid": str | None,
        "name": str,
        "parallelism": int,
        "max-parallelism": int,
        "states": list[StateOfOperator],
    },
)


class StatesOfCheckpoint(TypedDict):
    checkpoint: int
    completed: int
    path: str
    operators: list[OperatorWithState]


class KeyCount(TypedDict):
    checkpoint: int
    keys: int | None
    entries: int
    groups: dict[str, int]
    complete: bool


class StateRow(TypedDict):
    key: ShownValue
    window: str | None
    value: ShownValue


class StateRows(TypedDict):
    checkpoint: int
    rows: list[StateRow]
    next: str | None


class FoundKey(TypedDict):
    checkpoint: int
    found: bool
    row: StateRow | None


class KeyAtCheckpoint(TypedDict):
    checkpoint: int
    completed: int
    found: bool
    value: ShownValue | None
    changed: bool


class KeyHistory(TypedDict):
    key: ShownValue
    history: list[KeyAtCheckpoint]
    complete: bool


class ChangedEntry(TypedDict):
    kind: str
    key: ShownValue
    before: ShownValue | None
    after: ShownValue | None


class ChangedState(TypedDict):
    operator: str
    state: str
    kind: str
    added: int
    removed: int
    changed: int
    changes: list[ChangedEntry]
    complete: bool


class StateChanges(TypedDict):
    before: int
    after: int
    states: list[ChangedState]


class PreviewedRecord(TypedDict):
    subtask: int
    port: str
    timestamp: int | None
    value: ShownValue


PreviewOutcome = TypedDict(
    "PreviewOutcome",
    {
        "epoch": NotRequired[int],
        "complete": NotRequired[bool],
        "recorded": NotRequired[bool],
        "operator": NotRequired[str],
        "side": NotRequired[str],
        "count": NotRequired[int],
        "records": NotRequired[list[PreviewedRecord]],
        "truncated": NotRequired[bool],
        "failure": NotRequired[str | None],
        "failure-cause": NotRequired[FailureCause],
    },
)


class PreviewState(TypedDict):
    status: OperationStatus
    operation: PreviewOutcome | None


class PreviewRequest(TypedDict):
    operator: Annotated[str, Field(min_length=1, max_length=1000)]
    side: NotRequired[Literal["emitted", "received"] | None]
    epoch: NotRequired[Annotated[int, Field(ge=1, le=2**53)] | None]
    limit: NotRequired[Annotated[int, Field(ge=1, le=1000)] | None]
    triggerId: NotRequired[TriggerId | None]
