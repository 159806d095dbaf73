"""Settings of PyFlink's ``ExecutionConfig`` that concern the JVM.

They are accepted, so that programs port. Driver side.

Each is written to the configuration under Flink's own key and can be read again. When the program runs, every such key
logs one line on the logger ``flott.porting`` (``_options.validate``).
"""

from __future__ import annotations

from typing import Self

from flott.common.configuration import Configuration

_CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
_FORCE_AVRO = "pipeline.force-avro"
_FORCE_KRYO = "pipeline.force-kryo"
_GENERIC_TYPES = "pipeline.generic-types"
_SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"
_CANCELLATION_INTERVAL = "task.cancellation.interval"


class IgnoredExecutionSettings:
    """The settings of the execution config that have no effect.

    Functions are serialized by cloudpickle, records by pickle, and Spark ends the tasks of a cancelled epoch.
    """

    _configuration: Configuration

    def enable_closure_cleaner(self) -> Self:
        return self._set(_CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> Self:
        return self._set(_CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE") != "NONE"

    def enable_force_avro(self) -> Self:
        return self._set(_FORCE_AVRO, "true")

    def disable_force_avro(self) -> Self:
        return self._set(_FORCE_AVRO, "false")

    def is_force_avro_enabled(self) -> bool:
        return self._configuration.get_boolean(_FORCE_AVRO, False)

    def enable_force_kryo(self) -> Self:
        return self._set(_FORCE_KRYO, "true")

    def disable_force_kryo(self) -> Self:
        return self._set(_FORCE_KRYO, "false")

    def is_force_kryo_enabled(self) -> bool:
        return self._configuration.get_boolean(_FORCE_KRYO, False)

    def enable_generic_types(self) -> Self:
        return self._set(_GENERIC_TYPES, "true")

    def disable_generic_types(self) -> Self:
        return self._set(_GENERIC_TYPES, "false")

    def has_generic_types_disabled(self) -> bool:
        return not self._configuration.get_boolean(_GENERIC_TYPES, True)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return nothing: there are no Java classes to serialize."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Return nothing: there are no Java classes to serialize."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Return nothing: there are no Java classes to serialize."""
        return []

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> Self:
        return self._set(_SNAPSHOT_COMPRESSION, str(bool(use_snapshot_compression)).lower())

    def is_use_snapshot_compression(self) -> bool:
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_task_cancellation_interval(self, interval: int) -> Self:
        return self._set(_CANCELLATION_INTERVAL, f"{interval} ms")

    def get_task_cancellation_interval(self) -> int:
        return self._milliseconds(_CANCELLATION_INTERVAL, 30_000)

    def _set(self, key: str, value: str) -> Self:
        self._configuration.set_string(key, value)
        return self

    def _milliseconds(self, key: str, default: int) -> int:
        return int(self._configuration.get_string(key, f"{default} ms").removesuffix(" ms"))
