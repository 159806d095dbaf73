"""What a program promises about its records: as much as the weakest of its sources and sinks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flott.graph.specs import SinkSpec, SourceSpec
from flott.graph.stream_graph import StreamNode

if TYPE_CHECKING:
    from flott.datastream.connectors.base import Guarantee


@dataclass(frozen=True)
class WeakestLink:
    """The source or sink that promises least. If several promise the same, it is the first."""

    name: str
    guarantee: Guarantee


def guarantee_of(node: StreamNode) -> Guarantee | None:
    """Return what a source or sink declares. None: it is another operator, or its output ends with the job."""
    match node.spec:
        case SourceSpec(source=source):
            return source.guarantee
        case SinkSpec(sink=sink):
            return sink.guarantee
    return None


def weakest_link(nodes: Iterable[StreamNode]) -> WeakestLink | None:
    """Return the weakest link of a program; None if no source or sink declares anything."""
    links = [WeakestLink(node.name, found) for node in nodes if (found := guarantee_of(node)) is not None]
    return min(links, key=lambda link: link.guarantee.strength, default=None)
