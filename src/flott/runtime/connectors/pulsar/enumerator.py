"""Plans which messages of Pulsar topics an epoch reads: up to the last one that a partition has. Driver side."""

from __future__ import annotations

from typing import Any

from flott.datastream.connectors.base import Json, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.pulsar import PulsarSource
from flott.errors import StateError
from flott.runtime.connectors.pulsar.connection import client, explained, id_of, id_text, library, order

STATE_VERSION = 1
#: A position: ["earliest"], ["time", milliseconds], ["at", id] (with this message) or ["after", id].
EARLIEST = ["earliest"]


class PulsarEnumerator(SplitEnumerator):
    """A split is a partition. A subscription of each keeps its messages until they are acknowledged."""

    readable_beside = False

    def __init__(self, source: PulsarSource):
        self._source = source
        self._consumers: dict[str, Any] = {}
        self._positions: dict[str, Json] = {}
        self._stops: dict[str, str | None] = {}  #: the last message of each partition of a source that ends
        self._acknowledged: dict[str, str] = {}
        self._ended: set[str] = set()

    def _explained(self, doing: str) -> Any:
        return explained(self._source.service_url, self._source.properties, doing)

    def open(self) -> None:
        pulsar = library()
        for topic in self._source.topics:
            with self._explained(f"looking for topic {topic}"):
                for partition in client(self._source.service_url, self._source.properties).get_topic_partitions(topic):
                    self._consumers[partition] = self._subscribe(pulsar, partition)
        for partition, consumer in self._consumers.items():
            last = self._last(partition, consumer)
            start = list(self._source.start.position)
            if start == ["latest"]:
                start = ["after", last] if last is not None else EARLIEST
            self._positions[partition] = start
            if self._source.stop.kind == "latest":
                self._stops[partition] = last

    def _subscribe(self, pulsar: Any, partition: str) -> Any:
        return client(self._source.service_url, self._source.properties).subscribe(
            partition,
            self._source.subscription_name,
            # A process that is gone does not hinder its successor. Nothing is received: tasks read by ids.
            consumer_type=pulsar.ConsumerType.Failover,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=1,
        )

    def _last(self, partition: str, consumer: Any) -> str | None:
        """Return the id of the last message; None if there is none."""
        with self._explained(f"asking for the last message of {partition}"):
            found = consumer.get_last_message_id()
        return id_text(found) if found.entry_id() >= 0 else None

    def restore(self, state: Json) -> None:
        if state["version"] != STATE_VERSION:
            raise StateError(
                f"Pulsar topics: the state has version {state['version']}, but {STATE_VERSION} is the highest known."
            )
        self._positions |= {name: at for name, at in state["positions"].items() if name in self._positions}
        self._stops = state["stops"]
        self._ended = set(state["ended"])

    def plan(self, request: SliceRequest) -> SlicePlan:
        ends = self._source.stop.kind == "latest"
        slices, waiting = [], []
        for partition, consumer in self._consumers.items():
            if partition in self._ended or partition in request.paused:
                continue
            last = self._stops.get(partition) if ends else self._last(partition, consumer)
            position = self._positions[partition]
            behind = last is not None and (position[0] != "after" or order(id_of(position[1])) < order(id_of(last)))
            if behind or ends:
                stop = ["after", last] if behind else position
                slices.append(Slice(partition, position, stop, ends_split=ends))
            else:
                waiting.append(partition)
        left = self._consumers.keys() - self._ended - {part.split for part in slices}
        return SlicePlan(tuple(slices), finished=ends and not left, waiting=tuple(waiting))

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for part in plan.slices:
            self._positions[part.split] = part.stop
            if part.ends_split:
                self._ended.add(part.split)

    def snapshot(self) -> Json:
        return {
            "version": STATE_VERSION,
            "positions": dict(self._positions),
            "stops": dict(self._stops),
            "ended": sorted(self._ended),
        }

    def acknowledge(self) -> None:
        for partition, position in self._positions.items():
            if position[0] == "after" and self._acknowledged.get(partition) != position[1]:
                with self._explained(f"acknowledging to {partition}"):
                    self._consumers[partition].acknowledge_cumulative(id_of(position[1]))
                self._acknowledged[partition] = position[1]

    def close(self) -> None:
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.close()
