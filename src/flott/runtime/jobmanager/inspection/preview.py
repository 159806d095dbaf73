"""The records of an operator in an epoch: the epoch is run again in this process. Inspector side.

    recorded   the input of an epoch is stored with its checkpoint: the last complete epoch, or the one that runs
    read on    otherwise sources are read on from the latest checkpoint, as far as that takes nothing from the job

Nothing of the job is touched: ``flott.runtime.replay`` reads the input and the state of the epoch again, writes into a
folder of its own, and does not run the writers of sinks. Functions of the user run, as they do at every restart.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

from flott.common._ids import EpochId
from flott.common.configuration import Configuration
from flott.errors import StateError
from flott.graph.operator_ids import operator_ids
from flott.graph.stream_graph import StreamGraph
from flott.runtime.jobmanager.inspection.questions import PreviewRecords
from flott.runtime.jobmanager.inspection.rendering import rendered
from flott.runtime.jobmaster.rescaling import find_operator
from flott.runtime.replay.observation import SeenRecord, SeenTraffic, Watch
from flott.runtime.replay.recorded_epoch import (
    RecordedEpoch,
    held,
    read_ahead,
    read_epoch,
    replayable,
    runs_pipelined,
)
from flott.runtime.replay.replay import replayed

#: How often an epoch is looked for, and the pause between two attempts in seconds. A job that keeps one checkpoint was
#: told to keep two, which begins with its next epoch.
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.2
#: From this attempt on, the epoch that runs is taken too.
_PATIENT_ATTEMPTS = 5
#: How many records are read on from a checkpoint at most.
READ_ON_RECORDS = 10_000


def preview(
    question: PreviewRecords, directory: str, graph: StreamGraph, configuration: Configuration
) -> dict[str, Any]:
    """Run an epoch again and return the records that an operator got or emitted."""
    node = find_operator(graph, question.operator)
    ident = operator_ids(graph)[node.id]
    watch = Watch(frozenset({ident}), limit=question.limit)
    attempts = 0 if question.epoch is None and runs_pipelined(directory) else _ATTEMPTS
    for attempt in range(attempts + 1):
        try:
            with (
                held(_found(directory, question.epoch, attempt, attempts)) as recorded,
                replayed(recorded, graph, configuration, watch=watch) as once,
            ):
                traffic = once.traffic.get(ident) or SeenTraffic()
                passage = traffic.received if question.side == "received" else traffic.emitted
                records = list(islice(passage.records(), question.limit))
                return {
                    "epoch": recorded.epoch,
                    "complete": recorded.after is not None,
                    "recorded": recorded.read_on is None,
                    "operator": node.uid or node.name,
                    "side": question.side,
                    "count": passage.count,
                    "records": [_record(record) for record in records],
                    "truncated": passage.count > len(records),
                    "failure": None if once.card is None else str(once.card),
                }
        except StateError:
            if question.epoch is not None or attempt == attempts:
                raise
            threading.Event().wait(_PAUSE_SECONDS)
    raise AssertionError("the last attempt returns or raises")


def _found(directory: str, epoch: int | None, attempt: int, last: int) -> RecordedEpoch:
    """Return an epoch: without a number the latest complete one, later the one that runs, at last one that reads on."""
    if epoch is not None:
        return read_epoch(directory, EpochId(epoch))
    if attempt == last:
        return read_ahead(directory, READ_ON_RECORDS)
    running: RecordedEpoch | None = None
    for number in reversed(replayable(directory)):
        found = read_epoch(directory, number)
        if found.after is not None:
            return found
        running = running or found
    if running is None or attempt < _PATIENT_ATTEMPTS:
        raise StateError("No epoch can be run again at present.")
    return running


def _record(record: SeenRecord) -> dict[str, Any]:
    return {
        "subtask": record.subtask,
        "port": record.port,
        "timestamp": record.timestamp,
        "value": rendered(record.value),
    }
