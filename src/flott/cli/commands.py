"""The list of commands: where each is, and its line in ``flott --help``. Data; a module is imported when it is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """A command in the list."""

    place: str  #: "module:attribute", where the attribute is a click command
    help: str
    section: str


_JOBS = "Jobs"
_SNAPSHOTS = "Snapshots and state"
_CLUSTER = "Clusters and configuration"

#: In the order ``flott --help`` shows them.
COMMANDS: dict[str, Listed] = {
    "run": Listed("flott.cli.run:run", "Run a program, on a session or by itself.", _JOBS),
    "list": Listed("flott.cli.list_jobs:list_jobs", "List jobs.", _JOBS),
    "info": Listed("flott.cli.info:info", "Show the graph of a program or a job.", _JOBS),
    "status": Listed("flott.cli.status:status", "Show a job once.", _JOBS),
    "top": Listed("flott.cli.status:top", "Watch a job, or all of them.", _JOBS),
    "logs": Listed("flott.cli.logs:logs", "Show what a job, the JobManager or a task manager said.", _JOBS),
    "cancel": Listed("flott.cli.ending:cancel", "Cancel a job.", _JOBS),
    "stop": Listed("flott.cli.ending:stop", "End a job with a savepoint.", _JOBS),
    "rescale": Listed("flott.cli.rescale:rescale", "Change the parallelism of a job that runs.", _JOBS),
    "explain-watermark": Listed(
        "flott.cli.explain_watermark:explain_watermark", "Show who holds event time back.", _JOBS
    ),
    "savepoint": Listed("flott.cli.savepoint:savepoint", "Take, dispose of and export savepoints.", _SNAPSHOTS),
    "checkpoint": Listed("flott.cli.checkpoints:checkpoint", "Complete an epoch now.", _SNAPSHOTS),
    "checkpoints": Listed("flott.cli.checkpoints:checkpoints", "Show the last checkpoints of a job.", _SNAPSHOTS),
    "state": Listed("flott.cli.state:state", "Look at state: list, get, scan, diff.", _SNAPSHOTS),
    "replay": Listed("flott.cli.replay:replay", "Run a retained epoch again, to look at it.", _SNAPSHOTS),
    "cluster": Listed("flott.cli.cluster:cluster", "Start, stop and look at session clusters.", _CLUSTER),
    "config": Listed("flott.cli.config:config", "Every option: value, default, source and meaning.", _CLUSTER),
    "doctor": Listed("flott.cli.doctor:doctor", "Check this machine: what is wrong, and the fix.", _CLUSTER),
    "completion": Listed("flott.cli.completion:completion", "Print the completion script of a shell.", _CLUSTER),
}
