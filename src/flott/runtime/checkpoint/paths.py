"""The only speller of paths below a job's directory. Driver side.

    <execution.checkpointing.dir>/<job id>/
        job.json                  which job this is
        lock                      held by the process that runs it
        plans/epoch-<n>.json      the input of an epoch, fixed before it ran
        chk-<n>/_metadata         a completed checkpoint
        state/<...>               state files, shared by checkpoints
"""

from __future__ import annotations

import re

JOB = "job.json"
LOCK = "lock"
PLANS = "plans"
STATE = "state"

_CHECKPOINT = re.compile(r"chk-(\d+)")
_PLAN = re.compile(r"epoch-(\d+)\.json")
_STATE_FILE = re.compile(r"[0-9a-f]{16}-\d+-(\d+)-.+")


def plan(epoch: int) -> str:
    """The plan of an epoch."""
    return f"{PLANS}/epoch-{epoch}.json"


def epoch_of_plan(name: str) -> int | None:
    """The epoch of a file in the plans folder."""
    match = _PLAN.fullmatch(name)
    return int(match[1]) if match else None


def checkpoint(checkpoint_id: int) -> str:
    """The folder of a checkpoint."""
    return f"chk-{checkpoint_id}"


def metadata(checkpoint_id: int) -> str:
    """The metadata of a checkpoint: it is complete if and only if this file exists."""
    return f"chk-{checkpoint_id}/_metadata"


def id_of_checkpoint(name: str) -> int | None:
    """The checkpoint of a folder."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


def epoch_of_state_file(name: str) -> int | None:
    """The epoch in which a file of the state folder was written."""
    match = _STATE_FILE.fullmatch(name)
    return int(match[1]) if match else None
