"""The threads of a process with their stacks. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from typing_extensions import TypedDict


@dataclass(frozen=True)
class ThreadFacts:
    """A thread."""

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
    """Return one entry per thread. Threads that Python did not start have only a number."""
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
