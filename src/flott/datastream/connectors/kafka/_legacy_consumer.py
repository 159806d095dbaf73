"""``FlinkKafkaConsumer``, the source of PyFlink 1.x: another form of :class:`KafkaSource`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flott.common.serialization import DeserializationSchema
from flott.common.typeinfo._type_information import TypeInformation
from flott.datastream.connectors.base import Boundedness, Guarantee, Source, SourceReader, SplitEnumerator
from flott.datastream.connectors.kafka._offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from flott.datastream.connectors.kafka._source import KafkaSource
from flott.errors import ProgramError

#: The name of the discovery interval in this older form.
_DISCOVERY = "flink.partition-discovery.interval-millis"


class FlinkKafkaConsumer(Source[Any]):
    """Reads topics of Kafka. New programs use :class:`KafkaSource`, which is what this is made of.

    It starts at the offsets that the group has committed, unless one of the ``set_start_from`` methods is called.
    Partitions are looked for once, unless ``flink.partition-discovery.interval-millis`` is set.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    >>> consumer.set_start_from_earliest().source
    KafkaSource(topic orders, from earliest(), at localhost:9092)
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ):
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        interval = properties.get(_DISCOVERY, "-1")
        others = {key: value for key, value in properties.items() if key != _DISCOVERY}
        self._schema = deserialization_schema
        self.source = (
            KafkaSource.builder()
            .set_topics(*names)
            .set_value_only_deserializer(deserialization_schema)
            .set_properties({**others, "partition.discovery.interval.ms": interval})
            .build()
        )
        if properties.get("group.id"):
            self.set_start_from_group_offsets()
        elif properties.get("auto.offset.reset", "latest") == "latest":
            self.set_start_from_latest()

    def set_start_from_earliest(self) -> FlinkKafkaConsumer:
        """Start at the oldest record."""
        return self._start_from(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> FlinkKafkaConsumer:
        """Start at the end."""
        return self._start_from(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumer:
        """Start at the first record that is not older than this, in milliseconds since 1970."""
        return self._start_from(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumer:
        """Start where the group has committed; where it has not, ``auto.offset.reset`` decides (``latest``)."""
        if not self.source.group_id:
            raise ProgramError("set_start_from_group_offsets() needs a group: set the property group.id.")
        wanted = self.source.properties.get("auto.offset.reset", "latest").upper()
        if wanted not in KafkaOffsetResetStrategy.__members__:
            raise ProgramError(f"auto.offset.reset is earliest, latest or none, found {wanted.lower()!r}.")
        return self._start_from(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[wanted]))

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumer:
        """Set whether the group is told after every checkpoint how far the job has come."""
        changed = self.source.properties | {"commit.offsets.on.checkpoint": str(commit_on_checkpoints).lower()}
        self.source = replace(self.source, properties=changed)
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumer:
        """Do nothing, for ported programs: restored partitions of topics that are not read any more are left out."""
        return self

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._schema.get_produced_type()

    def _start_from(self, offsets: KafkaOffsetsInitializer) -> FlinkKafkaConsumer:
        self.source = replace(self.source, starting_offsets=offsets)
        return self

    @property
    def boundedness(self) -> Boundedness:
        return self.source.boundedness

    @property
    def guarantee(self) -> Guarantee:
        return self.source.guarantee

    def create_enumerator(self) -> SplitEnumerator:
        return self.source.create_enumerator()

    def create_reader(self) -> SourceReader[Any]:
        return self.source.create_reader()

    def __repr__(self) -> str:
        return repr(self.source).replace("KafkaSource", "FlinkKafkaConsumer", 1)
