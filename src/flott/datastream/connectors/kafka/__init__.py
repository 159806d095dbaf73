"""The Kafka connector: source and sink, as in PyFlink. It needs ``pip install 'flott[kafka]'``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flott._absent import names_of
from flott.datastream.connectors.kafka._deserializers import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    SimpleStringValueKafkaRecordDeserializationSchema,
)
from flott.datastream.connectors.kafka._legacy_consumer import FlinkKafkaConsumer
from flott.datastream.connectors.kafka._offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from flott.datastream.connectors.kafka._serializers import (
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from flott.datastream.connectors.kafka._sink import (
    FlinkKafkaProducer,
    KafkaDeadLetterSink,
    KafkaSink,
    KafkaSinkBuilder,
    Semantic,
)
from flott.datastream.connectors.kafka._source import KafkaSource, KafkaSourceBuilder

__all__ = [
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaOffsetsInitializer",
    "KafkaOffsetResetStrategy",
    "KafkaRecordDeserializationSchema",
    "SimpleStringValueKafkaRecordDeserializationSchema",
    "ConsumerRecord",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
    "KafkaPartitioner",
    "KafkaDeadLetterSink",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "Semantic",
]

if not TYPE_CHECKING:  # otherwise a type checker accepts any name of this module
    __getattr__ = names_of(__name__)
