"""The list of commands: the module and the help line of each. Data; a module is imported when its command is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """A command in the list."""

    place: str  #: "module:attribute" below ``flott.cli.commands``; the attribute is a click command
    help: str
    section: str


_JOBS = "Jobs"
_SNAPSHOTS = "Snapshots and state"
_CLUSTER = "Clusters and configuration"

#: The order is that of ``flott --help``.
COMMANDS: dict[str, Listed] = {
    "run": Listed("run:run", "Run a program on a session or as an application.", _JOBS),
    "sql": Listed("sql:sql", "Run SQL: a shell, a file or statements.", _JOBS),
    "sql-gateway": Listed("sql_gateway:sql_gateway", "Serve SQL over HTTP to Flink's clients.", _JOBS),
    "list": Listed("list_jobs:list_jobs", "List jobs.", _JOBS),
    "info": Listed("info:info", "Show the graph of a program or a job.", _JOBS),
    "status": Listed("status:status", "Show the status of a job.", _JOBS),
    "top": Listed("status:top", "Watch a job, or all jobs.", _JOBS),
    "logs": Listed("logs:logs", "Show the log of a job, the JobManager or a task manager.", _JOBS),
    "cancel": Listed("cancel_stop_rescale:cancel", "Cancel a job.", _JOBS),
    "stop": Listed("cancel_stop_rescale:stop", "End a job with a savepoint.", _JOBS),
    "rescale": Listed("cancel_stop_rescale:rescale", "Change the parallelism of a running job.", _JOBS),
    "explain-watermark": Listed("status:explain_watermark", "Show what holds event time back.", _JOBS),
    "savepoint": Listed("savepoint:savepoint", "Take, dispose of and export savepoints.", _SNAPSHOTS),
    "checkpoint": Listed("checkpoints:checkpoint", "Complete an epoch now.", _SNAPSHOTS),
    "checkpoints": Listed("checkpoints:checkpoints", "Show the last checkpoints of a job.", _SNAPSHOTS),
    "state": Listed("state:state", "Inspect state: list, get, scan, diff.", _SNAPSHOTS),
    "replay": Listed("replay:replay", "Run a retained epoch again to inspect it.", _SNAPSHOTS),
    "cep": Listed("cep:cep", "Try rules on recorded events, and explain non-matches.", _SNAPSHOTS),
    "cluster": Listed("cluster:cluster", "Start, stop and inspect session clusters.", _CLUSTER),
    "config": Listed("config:config", "Show options: value, default, source and meaning.", _CLUSTER),
    "doctor": Listed("doctor:doctor", "Check this machine and suggest fixes.", _CLUSTER),
    "completion": Listed("completion:completion", "Print the completion script of a shell.", _CLUSTER),
}
