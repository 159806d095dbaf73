"""Bodies and replies of what changes a job, under Flink's names. Data."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from flott.rest.throwable import FailureCause

TriggerId = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")]
FormatType = Literal["CANONICAL", "NATIVE"]


class EmptyResponse(TypedDict):
    """An answer that says no more than that the request was taken."""


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


class StopRequest(TypedDict):
    targetDirectory: NotRequired[str | None]
    drain: NotRequired[bool | None]
    formatType: NotRequired[FormatType | None]
    triggerId: NotRequired[TriggerId | None]


class CheckpointRequest(TypedDict):
    """Every checkpoint of Flott is complete in itself, so the types are one and the same."""

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
    """Flink spells the failure of a checkpoint unlike that of everything else."""

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
