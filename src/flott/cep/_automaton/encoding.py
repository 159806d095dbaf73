"""The partial matches of a key as plain data, for state: lists, numbers and the user's events, no class of Flott.

Nodes refer to each other by their place in a list, the node before first, so a long path is no deep structure.
"""

from __future__ import annotations

from typing import Any

from flott.cep._automaton.matcher import Matcher, Matches
from flott.cep._automaton.moves import Event, Node
from flott.errors import StateError

#: (signature, next number, starts, events, nodes, groups, waiting)
Plain = tuple[str, int, list[int], list[Any], list[int], list[Any], list[int]]


def to_plain(matcher: Matcher, held: Matches) -> Plain:
    """Return partial matches as plain data."""
    events: list[Any] = []
    nodes: list[int] = []
    event_places: dict[int, int] = {}
    node_places: dict[int, int] = {}

    def place(node: Node) -> int:
        path: list[Node] = []
        step: Node | None = node
        while step is not None and id(step) not in node_places:
            path.append(step)
            step = step[2]
        before = -1 if step is None else node_places[id(step)]
        for step in reversed(path):
            event, position, _ = step
            found = event_places.get(event[0])
            if found is None:
                found = event_places[event[0]] = len(event_places)
                events.extend(event)
            node_places[id(step)] = len(nodes) // 3
            nodes.extend((found, position, before))
            before = node_places[id(step)]
        return before

    groups: list[Any] = []
    for state, group in held.groups.items():
        members: list[int] = []
        for start, paths in group.items():
            for node in paths:
                members += (start, place(node))
        groups.append((state.junction, state.mask, state.fresh, members))
    waiting = [number for start, node in held.waiting for number in (start, place(node))]
    starts = [number for pair in held.starts for number in pair]
    return matcher.automaton.signature, held.next_number, starts, events, nodes, groups, waiting


def from_plain(matcher: Matcher, plain: Plain) -> Matches:
    """Return partial matches from plain data."""
    signature, next_number, starts, flat_events, flat_nodes, groups, waiting = plain
    if signature != matcher.automaton.signature:
        raise StateError(
            "The pattern has changed since its partial matches were saved: its stages, their order or their"
            " quantifiers are not the same. Give the operator of the changed pattern another uid(), which starts it"
            " without partial matches."
        )
    events: list[Event] = list(zip(flat_events[::3], flat_events[1::3], flat_events[2::3], strict=True))
    nodes: list[Node] = []
    for event, position, before in zip(flat_nodes[::3], flat_nodes[1::3], flat_nodes[2::3], strict=True):
        nodes.append((events[event], position, None if before < 0 else nodes[before]))
    held = Matches()
    held.next_number = next_number
    held.starts.extend(zip(starts[::2], starts[1::2], strict=True))
    for junction, mask, fresh, members in groups:
        group: dict[int, list[Node]] = {}
        for start, node in zip(members[::2], members[1::2], strict=True):
            group.setdefault(start, []).append(nodes[node])
        held.groups[matcher.state(junction, mask, fresh)] = group
    held.waiting = [(start, nodes[node]) for start, node in zip(waiting[::2], waiting[1::2], strict=True)]
    held.deadline = matcher.earliest(held)
    return held
