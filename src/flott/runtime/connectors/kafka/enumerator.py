"""Decides which offsets of which partitions an epoch reads. Driver side.

A split is a partition. The state is the position in every partition, and where it stops if the source is to end. What
the source begins with is found once, when it is opened. It becomes durable with the first epoch that reads something:
its first slice carries the beginning, so that an enumerator that did not make the plan continues from the same one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.kafka._offsets import KafkaTopicPartition
from flott.datastream.connectors.kafka._source import KafkaSource, KafkaSubscription
from flott.errors import ConnectorError, FlottError, StateError
from flott.runtime.connectors.kafka.beginning import find_beginning
from flott.runtime.connectors.kafka.cluster import AskedOffsets, KafkaCluster, NoAnswerYet, Offsets
from flott.runtime.connectors.kafka.partition_consumer import KEPT_CONSUMERS, POOL
from flott.runtime.connectors.kafka.shares import share_out

log = logging.getLogger("flott.connectors.kafka")

#: How long a plan waits for a broker. The job must be able to do other things while a broker is restarted.
PATIENCE_MS = 1000
#: For how long partitions are followed. Then it is looked what else there is, and how much waits.
FOLLOW_MS = 1000
#: How long the end of a job waits for the last offsets to be committed to the group.
LAST_COMMIT_SECONDS = 5.0


@dataclass(frozen=True)
class PartitionState:
    """How far a partition was read."""

    position: int  #: the offset that comes next
    stop: int | None = None  #: where it ends; ``None``: never
    ended: bool = False

    def left(self, end: int) -> int:
        """Return how many offsets there are to read, if the partition has them up to ``end``."""
        return 0 if self.ended else max(0, min(end, end if self.stop is None else self.stop) - self.position)


Partitions = dict[KafkaTopicPartition, PartitionState]


class KafkaEnumerator(SplitEnumerator):
    """Plans the reading of a :class:`KafkaSource`."""

    readable_beside = True  # committing offsets moves no other reader

    def __init__(self, source: KafkaSource):
        self._source = source
        self._cluster = KafkaCluster(source.properties, source.reads_committed, source.api_timeout_ms)
        # The state: what snapshot returns.
        self._partitions: Partitions = {}
        # Not state.
        self._fresh: Partitions = {}  # partitions that were found later, of which nothing was read yet
        self._begun = False  # an epoch has completed, so the beginning is durable
        self._looked_at_ms: int | None = None  # when partitions were looked for
        self._ends: Offsets = {}  # as of the last answer
        self._asked: AskedOffsets | None = None  # a question about ends that is not answered yet
        self._silent_since_ms: int | None = None
        self._told: Offsets = {}  # what the group was told
        self._telling: Any = None  # the answer of the group

    def open(self) -> None:
        found = self._cluster.partitions_of(self._source.subscription, at_start=True)
        source = self._source
        starts = find_beginning(self._cluster, source.starting_offsets, found, source.group_id)
        stops: Offsets = {}
        if source.stopping_offsets is not None:
            stops = find_beginning(self._cluster, source.stopping_offsets, found, source.group_id)
        self._partitions = {partition: _begin(starts[partition], stops.get(partition)) for partition in found}

    def restore(self, state: Json) -> None:
        found, self._partitions = self._partitions, _partitions_from(state)
        self._begun = True
        for partition in [each for each in self._partitions if not _is_read(each, self._source.subscription)]:
            left_out = self._partitions.pop(partition)
            log.warning(
                "Partition %s of the checkpoint, at offset %d, is not read any more: the source reads %s.",
                partition, left_out.position, self._source.subscription,
            )  # fmt: skip
        if self._source.stopping_offsets is None:
            self._welcome(partition for partition in found if partition not in self._partitions)

    def snapshot(self) -> Json:
        return {"version": 1, "partitions": _partitions_as_json(self._partitions)}

    def plan(self, request: SliceRequest) -> SlicePlan:
        self._look_for_partitions(request.now_ms)
        everywhere = {**self._partitions, **self._fresh}
        reading = {partition: state for partition, state in everywhere.items() if not state.ended}
        if not reading and self._source.stopping_offsets is not None:
            return SlicePlan(finished=True)
        if not self._ask_for_ends(reading, request.now_ms):
            return SlicePlan(waiting=tuple(sorted(map(str, reading))))
        left = {partition: self._left(partition, state) for partition, state in reading.items()}
        if request.may_be_open and self._may_follow(len(reading), request.parallelism):
            return SlicePlan(
                self._slices(reading, left, are_open=True),
                backlog=sum(left.values()) > request.max_records,
                wake_at_ms=request.now_ms + FOLLOW_MS,
            )
        readable = {partition: count for partition, count in left.items() if str(partition) not in request.paused}
        shares = readable if request.everything else share_out(request.max_records, readable)
        slices = self._slices(reading, {partition: count for partition, count in shares.items() if count})
        taken = {part.split for part in slices}
        over = {part.split for part in slices if part.ends_split}
        finished = self._source.stopping_offsets is not None and len(over) == len(reading)
        return SlicePlan(
            slices,
            finished=finished,
            backlog=any(left[partition] > shares.get(partition, 0) for partition in reading),
            waiting=tuple(sorted(str(partition) for partition in reading if str(partition) not in taken)),
        )

    def _may_follow(self, partitions: int, parallelism: int) -> bool:
        """Return whether partitions are followed: without an end, and with a consumer for each."""
        return self._source.stopping_offsets is None and 0 < partitions <= KEPT_CONSUMERS * parallelism

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for part in plan.slices:
            detail = part.detail
            if not self._begun and "beginning" in detail:
                self._partitions = _partitions_from(detail["beginning"])
            partition = KafkaTopicPartition(detail["topic"], detail["partition"])
            self._fresh.pop(partition, None)
            before = self._partitions.get(partition, PartitionState(part.start))
            self._partitions[partition] = replace(before, position=reached[part.split], ended=part.ends_split)
        self._begun = self._begun or bool(plan.slices)
        self._partitions = dict(sorted(self._partitions.items()))

    def acknowledge(self) -> None:
        group = self._source.group_id
        if group is None or not self._source.commits_offsets:
            return
        if self._telling is not None:
            if not self._telling.done():
                return  # the next call tells more
            telling, self._telling = self._telling, None
            if (error := telling.exception()) is not None:
                self._told = {}
                raise self._cluster.words.failure(f"committing offsets of group {group}", error)
        news = {p: state.position for p, state in self._partitions.items() if self._told.get(p) != state.position}
        if news:
            self._telling = self._cluster.commit(group, news)
            self._told |= news

    def pending(self, now_ms: int) -> Pending:
        known = {
            partition: (state.position, state.left(self._ends[partition]))
            for partition, state in {**self._partitions, **self._fresh}.items()
            if partition in self._ends and not state.ended
        }
        gauges: dict[str, int] = {}
        for partition, (position, left) in known.items():
            scope = f"KafkaSourceReader.topic.{partition.topic}.partition.{partition.partition}"
            gauges |= {f"{scope}.currentOffset": position - 1, f"{scope}.pendingRecords": left}
            if partition in self._told:
                gauges[f"{scope}.committedOffset"] = self._told[partition]
        splits = {str(partition): left for partition, (_, left) in known.items()}
        return Pending(records=sum(splits.values()), splits=splits, gauges=gauges)

    def close(self) -> None:
        POOL.close(self._source.properties)  # in a job that runs in one process they are here, and not needed any more
        if self._telling is not None:
            try:
                self._telling.result(LAST_COMMIT_SECONDS)
                self.acknowledge()  # what came after the question that was under way
                if self._telling is not None:
                    self._telling.result(LAST_COMMIT_SECONDS)
            except Exception as error:
                log.warning("The last offsets were not committed to the group: %s", self._cluster.words.text(error))
            self._telling = None

    # ---- what is there -----------------------------------------------------------------------------------------------

    def _look_for_partitions(self, now_ms: int) -> None:
        interval_ms = self._source.discovery_interval_ms
        if self._looked_at_ms is None:
            self._looked_at_ms = now_ms  # open() has looked
        if interval_ms is None or now_ms < self._looked_at_ms + interval_ms or self._silent_since_ms is not None:
            return
        self._looked_at_ms = now_ms
        known = self._partitions.keys() | self._fresh.keys()
        try:
            found = self._cluster.partitions_of(self._source.subscription)
            self._welcome(partition for partition in found if partition not in known)
        except FlottError as error:  # if it lasts, the question about the ends fails, too
            log.warning("New partitions cannot be looked for at present: %s", error)

    def _welcome(self, partitions: Iterable[KafkaTopicPartition]) -> None:
        """Read new partitions from their oldest record, as they did not exist when the job began."""
        new = list(partitions)
        self._fresh |= {partition: PartitionState(start) for partition, start in self._cluster.earliest(new).items()}
        if new:
            log.info("New partitions are read from their beginning: %s.", ", ".join(map(str, new)))

    def _ask_for_ends(self, partitions: Iterable[KafkaTopicPartition], now_ms: int) -> bool:
        """Update the ends of partitions. False: there is no answer yet, and the job continues without one."""
        if self._asked is None:
            self._asked = self._cluster.ask_latest(partitions)
        try:
            self._ends = self._asked.result(PATIENCE_MS if self._silent_since_ms is None else 0)
        except NoAnswerYet:
            if self._silent_since_ms is None:
                self._silent_since_ms = now_ms
                log.warning("Kafka does not answer (%s). The source waits.", self._cluster.describe_silence())
            elif now_ms - self._silent_since_ms > self._source.api_timeout_ms:
                raise self._cluster.silence("listing offsets") from None
            return False
        except ConnectorError:
            self._asked = None
            raise
        self._asked, self._silent_since_ms = None, None
        return True

    def _left(self, partition: KafkaTopicPartition, state: PartitionState) -> int:
        end = self._ends.get(partition)
        if end is None:
            return 0  # it was found after the question
        if end < state.position and state.stop is None:
            raise ConnectorError(
                f"Topic {partition.topic}, partition {partition.partition}: the job has read up to offset"
                f" {state.position}, but the partition ends at {end}. The topic was deleted and created again, or the"
                " broker has lost records. Start the job without its old state."
            )
        return state.left(end)

    def _slices(self, reading: Partitions, shares: Offsets, are_open: bool = False) -> tuple[Slice, ...]:
        slices: list[Slice] = []
        for partition, count in sorted(shares.items()):
            state = reading[partition]
            stop = None if are_open else state.position + count
            detail: dict[str, Json] = {"topic": partition.topic, "partition": partition.partition}
            if not self._begun and not slices:
                detail["beginning"] = self.snapshot()
            ends_split = not are_open and stop == state.stop
            slices.append(Slice(str(partition), state.position, stop, count, ends_split, detail, are_open))
        return tuple(slices)


def _begin(start: int, stop: int | None) -> PartitionState:
    return PartitionState(start, stop, ended=stop is not None and start >= stop)


def _is_read(partition: KafkaTopicPartition, subscription: KafkaSubscription) -> bool:
    if subscription.pattern is not None:
        return re.fullmatch(subscription.pattern, partition.topic) is not None
    return partition.topic in subscription.topics or partition in subscription.partitions


def _partitions_as_json(partitions: Partitions) -> Json:
    return [[p.topic, p.partition, state.position, state.stop, state.ended] for p, state in partitions.items()]


def _partitions_from(state: Json) -> Partitions:
    if state.get("version") != 1:
        raise StateError(
            f"The state of a Kafka source has version {state.get('version')!r}, expected 1: a newer Flott wrote it."
        )
    return {
        KafkaTopicPartition(topic, number): PartitionState(position, stop, ended)
        for topic, number, position, stop, ended in state["partitions"]
    }
