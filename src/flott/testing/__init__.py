"""The public test kit: run operators and programs in this process, with scripted input and a manual clock.

    operator_harness   a piece of a program, record by record: no job, no sources, no sinks
    harness            a whole program here and now, or step by step with crashes and failing storage
    sources            ScriptedSource: elements and marks (Abort, EndOfEpoch, Wait) per split
    sinks              LedgerSink: a transactional sink that remembers what was staged and what was committed
    clock              ManualClock: time advances when code waits

It stands beside the command line: it may import anything, and nothing of the engine imports it.
"""

from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Crash, collect, in_process, live
from flott.testing.operator_harness import HarnessSnapshot, OperatorHarness, TwoInputHarness
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait

__all__ = [
    "OperatorHarness",
    "TwoInputHarness",
    "HarnessSnapshot",
    "in_process",
    "collect",
    "live",
    "Crash",
    "Cancel",
    "ScriptedSource",
    "Abort",
    "EndOfEpoch",
    "Wait",
    "Ledger",
    "LedgerSink",
    "ManualClock",
]
