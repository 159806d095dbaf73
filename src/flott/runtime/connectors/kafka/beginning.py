"""Finds the offsets at which a source starts or stops. Driver side."""

from __future__ import annotations

from collections.abc import Sequence

from flott.datastream.connectors.kafka._offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetKind,
)
from flott.errors import ProgramError
from flott.runtime.connectors.kafka.cluster import KafkaCluster, Offsets


def find_beginning(
    cluster: KafkaCluster,
    offsets: KafkaOffsetsInitializer,
    partitions: Sequence[KafkaTopicPartition],
    group: str | None,
) -> Offsets:
    """Return the offset of every partition."""
    match offsets.kind:
        case OffsetKind.EARLIEST:
            return cluster.earliest(partitions)
        case OffsetKind.LATEST:
            return cluster.latest(partitions)
        case OffsetKind.TIMESTAMP:
            found = cluster.since(partitions, offsets.timestamp_ms)
            return cluster.latest(p for p in partitions if p not in found) | found
        case OffsetKind.COMMITTED:
            assert group is not None
            wanted, owner = cluster.committed(group, partitions), f"group {group} has committed"
        case OffsetKind.GIVEN:
            wanted, owner = dict(offsets.given), "the program gives"
    return settle(partitions, wanted, cluster.earliest(partitions), cluster.latest(partitions), offsets.reset, owner)


def settle(
    partitions: Sequence[KafkaTopicPartition],
    wanted: Offsets,
    earliest: Offsets,
    latest: Offsets,
    reset: KafkaOffsetResetStrategy,
    owner: str,
) -> Offsets:
    """Take what is wanted where it exists; elsewhere the strategy decides. Pure.

    >>> orders, bills = KafkaTopicPartition("orders", 0), KafkaTopicPartition("bills", 0)
    >>> settle([orders, bills], {orders: 7}, {orders: 0, bills: 5}, {orders: 9, bills: 9},
    ...     KafkaOffsetResetStrategy.EARLIEST, "the program gives") == {orders: 7, bills: 5}
    True
    """
    settled = {}
    for partition in partitions:
        offset = wanted.get(partition)
        if offset is not None and earliest[partition] <= offset <= latest[partition]:
            settled[partition] = offset
        elif reset is KafkaOffsetResetStrategy.NONE:
            found = "no offset" if offset is None else f"offset {offset}"
            raise ProgramError(
                f"Topic {partition.topic}, partition {partition.partition}: {owner} {found}, and the broker has offsets"
                f" from {earliest[partition]} to {latest[partition]}. Choose a KafkaOffsetResetStrategy other than NONE"
                " to begin somewhere else."
            )
        else:
            settled[partition] = (earliest if reset is KafkaOffsetResetStrategy.EARLIEST else latest)[partition]
    return settled
