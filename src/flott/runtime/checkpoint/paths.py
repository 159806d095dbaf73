"""The only speller of paths below a job's directory and in a savepoint. Driver side.

    <execution.checkpointing.dir>/<job id>/
        job.json                  which job this is
        lock                      held by the process that runs it
        fence/<token>…            which JobManagers have run it, where one may take over from another (decision 0020)
        plans/epoch-<n>.json      the input of an epoch, fixed before it ran
        chk-<n>/_metadata         a completed checkpoint
        state/<...>               state files, shared by checkpoints
        pins/<name>.json          a savepoint elsewhere that refers to state files here
        claim/_metadata           the snapshot that the job was started from and has taken over

    <directory for savepoints>/savepoint-<job id>-<random>/
        _metadata                 the savepoint
        <operator id>-<subtask>.state            canonical: keyed state
        <operator id>-<subtask>.operator-state   canonical: operator state
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flott.common._ids import EpochId

JOB = "job.json"
FENCE = "fence"
LOCK = "lock"
INPUTS = "plans"
STATE = "state"
PINS = "pins"
METADATA = "_metadata"
CLAIM = "claim"
#: The snapshot that a job was started from and owns.
CLAIMED = f"{CLAIM}/{METADATA}"

_LEADER = re.compile(r"(\d+)-[0-9a-f]+")
_CHECKPOINT = re.compile(r"chk-(\d+)")
_INPUT = re.compile(r"epoch-(\d+)\.json")
_STATE_FILE = re.compile(r"[0-9a-f]{16}-\d+-(\d+)-.+")
#: A compactor that tries several times adds to the name.
_SAVEPOINT_FILE = re.compile(r"([0-9a-f]{32}-\d+\.(operator-)?state.*|\d+\.state)")


def epoch_input(epoch: int) -> str:
    """Return the name of the file with the fixed input of an epoch."""
    return f"{INPUTS}/epoch-{epoch}.json"


def epoch_of_input(name: str) -> EpochId | None:
    """Return the epoch of a file in the folder of inputs."""
    match = _INPUT.fullmatch(name)
    return EpochId(int(match[1])) if match else None


def checkpoint(checkpoint_id: int) -> str:
    """Return the folder of a checkpoint."""
    return f"chk-{checkpoint_id}"


def metadata(checkpoint_id: int) -> str:
    """Return the metadata of a checkpoint: it is complete if and only if this file exists."""
    return f"chk-{checkpoint_id}/{METADATA}"


def metadata_in(folder: str) -> str | None:
    """Return the metadata that a folder of the job's directory holds, if it is that of a checkpoint."""
    return None if id_of_checkpoint(folder) is None else f"{folder}/{METADATA}"


def input_in(file: str) -> str | None:
    """Return the name of a file of the folder of inputs, if it is one."""
    return None if epoch_of_input(file) is None else f"{INPUTS}/{file}"


def leader_tokens(names: Iterable[str]) -> list[int]:
    """Return the tokens of the leaders that have a folder in the fence, ascending."""
    return sorted(int(match[1]) for name in names if (match := _LEADER.fullmatch(name)))


def id_of_checkpoint(name: str) -> EpochId | None:
    """Return the checkpoint of a folder."""
    match = _CHECKPOINT.fullmatch(name)
    return EpochId(int(match[1])) if match else None


def state_file(operator: str, subtask: int, epoch: int, attempt: str) -> str:
    """Return the name of the file that an attempt at an epoch writes of a subtask's state."""
    return f"{STATE}/{operator[:16]}-{subtask}-{epoch}-{attempt}"


def channel_file(operator: str, subtask: int, epoch: int, attempt: str) -> str:
    """Return the file for buffers on their way to and from a task, named after the first operator of the task."""
    return f"{state_file(operator, subtask, epoch, attempt)}-channels"


def in_state_folder(file: str) -> str:
    """Return the name of a file of the state folder."""
    return f"{STATE}/{file}"


def in_inputs_folder(file: str) -> str:
    """Return the name of a file of the folder of inputs, whatever it is."""
    return f"{INPUTS}/{file}"


def shipped_plan(run_id: str, epoch: int, attempt: int) -> str:
    """Return the name of the file that carries a large plan to the tasks of one attempt at an epoch."""
    return f"{INPUTS}/run-{run_id}-{epoch}-{attempt}"


def epoch_of_state_file(name: str) -> int | None:
    """Return the epoch in which a file of the state folder was written."""
    match = _STATE_FILE.fullmatch(name)
    return int(match[1]) if match else None


def compacted(operator: str, subtask: int, epoch: int, attempt: str) -> str:
    """Return the file that a compaction makes of state as of an epoch; ``attempt`` names this one attempt at it."""
    return f"{STATE}/{operator[:16]}-{subtask}-{epoch}-{attempt}"


def pin(name: str) -> str:
    """Return what keeps the files of a savepoint that refers to this job's directory."""
    return f"{PINS}/{name}.json"


def pin_of_claim(job_id: str) -> str:
    """Return the name of the pin that keeps the files of a checkpoint which a job has claimed."""
    return f"claim-{job_id}"


def name_of_pin(name: str) -> str | None:
    """Return the pin that a file of the pins folder is."""
    return name.removesuffix(".json") if name.endswith(".json") and not name.startswith(".") else None


def restored(operator: str, subtask: int, checkpoint_id: int, number: str) -> str:
    """Return a state file that was copied from the snapshot a job was started from."""
    return f"{STATE}/{operator[:16]}-{subtask}-{checkpoint_id}-restored-{number}"


# --- savepoints ------------------------------------------------------------------------------------------------------


def savepoint(job_id: str, token: str) -> str:
    """Return the folder of a savepoint; ``token`` is different for each."""
    return f"savepoint-{job_id[:6]}-{token}"


def keyed_state(operator: str, subtask: int) -> str:
    """Return the keyed state of a subtask in a canonical savepoint."""
    return f"{operator}-{subtask}.state"


def operator_state(operator: str, subtask: int) -> str:
    """Return the operator state of a subtask in a canonical savepoint."""
    return f"{operator}-{subtask}.operator-state"


def is_savepoint_file(name: str) -> bool:
    """Return whether a file in a savepoint's folder can be state that was written there."""
    return _SAVEPOINT_FILE.fullmatch(name) is not None


def exported(number: int) -> str:
    """Return a state file that was copied into a savepoint as it is."""
    return f"{number}.state"
