"""The threads of a process, and where each of them stands. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from typing_extensions import TypedDict


@dataclass(frozen=True)
class ThreadFacts:
    """A thread by its number, and what is known of it."""

    ident: int
    name: str
    daemon: bool = False


class ThreadInfo(TypedDict):
    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(TypedDict):
    threadInfos: list[ThreadInfo]


NO_THREADS: ThreadDump = {"threadInfos": []}


def thread_dump(threads: Sequence[ThreadFacts], frames: Mapping[int, FrameType]) -> ThreadDump:
    """One entry for each frame; threads that were not started by Python have no name but their number."""
    known = {thread.ident: thread for thread in threads}
    facts = [known.get(ident) or ThreadFacts(ident, f"thread-{ident}") for ident in frames]
    return {
        "threadInfos": [
            {"threadName": thread.name, "stringifiedThreadInfo": _text(thread, frames[thread.ident])}
            for thread in facts
        ]
    }


def _text(thread: ThreadFacts, frame: FrameType) -> str:
    head = f'"{thread.name}" Id={thread.ident}{" daemon" if thread.daemon else ""}\n'
    calls = [f"\tat {call.name} ({call.filename}:{call.lineno})\n" for call in reversed(traceback.extract_stack(frame))]
    return head + "".join(calls)
