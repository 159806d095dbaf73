"""The public test kit: run programs in-process, with scripted input, a manual clock and a sink that keeps account.

    harness   run a program here and now, or step by step with crashes and failing storage
    sources   ScriptedSource: elements and marks (Abort, EndOfEpoch, Wait) per split
    sinks     LedgerSink: a transactional sink that remembers what was staged and what was committed
    clock     ManualClock: time passes when somebody waits

It stands beside the command line: it may import anything, and nothing of the engine imports it.
"""
