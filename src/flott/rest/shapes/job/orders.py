"""Bodies and responses of orders, under Flink's names. Data."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from flott.rest.throwable import FailureCause

TriggerId = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")]
FormatType = Literal["CANONICAL", "NATIVE"]


class EmptyResponse(TypedDict):
    """The response to an accepted request."""


TriggerResponse = TypedDict("TriggerResponse", {"request-id": str})
RequirementsResponse = TypedDict("RequirementsResponse", {"request-id": NotRequired[str]})

SavepointRequest = TypedDict(
    "SavepointRequest",
    {
        "target-directory": NotRequired[str | None],
        "cancel-job": NotRequired[bool | None],
        "formatType": NotRequired[FormatType | None],
        "triggerId": NotRequired[TriggerId | None],
    },
)
DisposalRequest = TypedDict("DisposalRequest", {"savepoint-path": str})
ExportRequest = TypedDict(
    "ExportRequest",
    {"savepoint-path": str, "target-directory": str, "triggerId": NotRequired[TriggerId | None]},
)
RestoreRequest = TypedDict(
    "RestoreRequest", {"savepoint-path": str, "allow-non-restored-state": NotRequired[bool | None]}
)


class RestoreResponse(TypedDict):
    """The job that was submitted."""

    jobid: str


class StopRequest(TypedDict):
    targetDirectory: NotRequired[str | None]
    drain: NotRequired[bool | None]
    formatType: NotRequired[FormatType | None]
    triggerId: NotRequired[TriggerId | None]


class CheckpointRequest(TypedDict):
    """A request for a checkpoint. Every checkpoint of Flott is self-contained, so the types are equivalent."""

    checkpointType: NotRequired[Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None]
    triggerId: NotRequired[TriggerId | None]


class HeartbeatRequest(TypedDict):
    expiredTimestamp: NotRequired[int | None]


class OperationStatus(TypedDict):
    id: Literal["IN_PROGRESS", "COMPLETED"]


SavepointOutcome = TypedDict(
    "SavepointOutcome", {"location": NotRequired[str], "failure-cause": NotRequired[FailureCause]}
)
PlainOutcome = TypedDict("PlainOutcome", {"failure-cause": NotRequired[FailureCause]})


class CheckpointOutcome(TypedDict):
    """The outcome of a checkpoint. Flink spells its failure field differently from that of other operations."""

    checkpointId: NotRequired[int]
    failureCause: NotRequired[FailureCause]


class SavepointState(TypedDict):
    status: OperationStatus
    operation: SavepointOutcome | None


class CheckpointState(TypedDict):
    status: OperationStatus
    operation: CheckpointOutcome | None


class OrderState(TypedDict):
    status: OperationStatus
    operation: PlainOutcome | None


class ParallelismBounds(TypedDict):
    lowerBound: NotRequired[Annotated[int, Field(ge=1, le=32768)]]
    upperBound: Annotated[int, Field(ge=1, le=32768)]


class VertexRequirements(TypedDict):
    parallelism: ParallelismBounds


ResourceRequirements = dict[str, VertexRequirements]
