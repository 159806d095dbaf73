"""Where the reading of Kafka partitions starts and stops, in PyFlink's words. The enumerator asks the broker later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from flott.errors import ProgramError


@dataclass(frozen=True, order=True)
class KafkaTopicPartition:
    """One partition of a topic.

    >>> str(KafkaTopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not self.topic:
            raise ProgramError(f"A topic is named by a text, found {self.topic!r}.")
        if self.partition < 0:
            raise ProgramError(f"A partition is a number from 0 on, found {self.partition!r} of topic {self.topic}.")

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class KafkaOffsetResetStrategy(Enum):
    """Where to start where a group has committed no offset, or an offset is not there any more."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2  #: the job fails


class OffsetKind(Enum):
    """How an initializer finds an offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    GIVEN = "given"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Where every partition starts, or stops.

    >>> KafkaOffsetsInitializer.offsets({KafkaTopicPartition("orders", 0): 17})
    KafkaOffsetsInitializer.offsets({orders-0: 17}, EARLIEST)
    """

    kind: OffsetKind
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    timestamp_ms: int = 0
    given: tuple[tuple[KafkaTopicPartition, int], ...] = ()

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Take the oldest record that is there."""
        return KafkaOffsetsInitializer(OffsetKind.EARLIEST, KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Take the end of the partition as it is when the job starts."""
        return KafkaOffsetsInitializer(OffsetKind.LATEST, KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Take what the group has committed. Where it has not, the strategy decides."""
        return KafkaOffsetsInitializer(OffsetKind.COMMITTED, offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Take the first record that is not older than this, in milliseconds since 1970; the end if there is none."""
        if timestamp < 0:
            raise ProgramError(f"A timestamp is a number of milliseconds since 1970, found {timestamp}.")
        return KafkaOffsetsInitializer(OffsetKind.TIMESTAMP, KafkaOffsetResetStrategy.LATEST, timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Take these offsets. For a partition that has none here, or whose offset is not there, the strategy decides.
        """
        for partition, offset in offsets.items():
            if offset < 0:
                raise ProgramError(f"An offset is a number from 0 on, found {offset} for {partition}.")
        return KafkaOffsetsInitializer(
            OffsetKind.GIVEN, offset_reset_strategy, given=tuple(sorted(offsets.items(), key=lambda item: item[0]))
        )

    def __repr__(self) -> str:
        match self.kind:
            case OffsetKind.COMMITTED:
                call = f"committed_offsets({self.reset.name})"
            case OffsetKind.TIMESTAMP:
                call = f"timestamp({self.timestamp_ms})"
            case OffsetKind.GIVEN:
                given = ", ".join(f"{partition}: {offset}" for partition, offset in self.given)
                call = f"offsets({{{given}}}, {self.reset.name})"
            case _:
                call = f"{self.kind.value}()"
        return f"KafkaOffsetsInitializer.{call}"
