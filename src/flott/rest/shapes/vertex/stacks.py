"""Stacks of processes as trees and lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

#: A tree has at most so many levels and nodes: what is deeper or comes later is left out.
MAX_DEPTH = 200
MAX_NODES = 20_000
MAX_NAME = 300


class FlameGraphNode(TypedDict):
    name: str
    value: int
    children: list[FlameGraphNode]


class StackFrame(TypedDict):
    name: str
    file: str
    line: int


class StackThread(TypedDict):
    name: str
    active: bool
    frames: list[StackFrame]


class ProcessStacks(TypedDict):
    pid: int
    subtasks: list[str]
    threads: list[StackThread]


class WorkerStacks(TypedDict):
    available: bool
    reason: str | None
    processes: list[ProcessStacks]


def no_stacks(reason: str) -> WorkerStacks:
    """Return an answer without stacks."""
    return {"available": False, "reason": reason, "processes": []}


def folded_tree(text: str) -> FlameGraphNode:
    """Return folded stacks as a tree: each line has frames from the outermost on, and how often they were seen.

    >>> folded_tree("main;work 3\\nmain;wait 1")["children"][0]["value"]
    4
    """
    root: FlameGraphNode = {"name": "root", "value": 0, "children": []}
    index: dict[int, dict[str, FlameGraphNode]] = {id(root): {}}
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        if not (frames and count.isdecimal() and len(count) < 16):
            continue
        node = root
        root["value"] += int(count)
        for name in frames.split(";")[:MAX_DEPTH]:
            child = index[id(node)].get(name)
            if child is None:
                if len(index) >= MAX_NODES:
                    break
                child = index[id(node)][name] = {"name": name[:MAX_NAME], "value": 0, "children": []}
                index[id(child)] = {}
                node["children"].append(child)
            child["value"] += int(count)
            node = child
    return root


def stack_threads(dump: Sequence[dict[str, Any]]) -> list[StackThread]:
    """Return the threads that py-spy has printed. The first frame is the innermost."""
    return [
        {
            "name": str(thread.get("thread_name") or f"thread {thread.get('os_thread_id') or thread.get('thread_id')}"),
            "active": bool(thread.get("active")),
            "frames": [
                {
                    "name": str(frame.get("name"))[:MAX_NAME],
                    "file": str(frame.get("short_filename") or frame.get("filename"))[:MAX_NAME],
                    "line": int(frame.get("line") or 0),
                }
                for frame in thread.get("frames", ())[:MAX_DEPTH]
            ],
        }
        for thread in dump
    ]
