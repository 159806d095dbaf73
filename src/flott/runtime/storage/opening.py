"""Which kind of storage a location is in: the only place that knows all kinds. Driver and task side.

How object stores are reached is set once for a process, as in Flink: a job does so when it starts, on the driver and in
every worker, and what opens a location later (a source, a sink, a savepoint elsewhere) finds it here. A process without
a job, such as a script that reads state, takes it from the configuration file and the environment.
"""

from __future__ import annotations

from flott.common._object_store_settings import ObjectStoreSettings
from flott.common._options import object_store_settings
from flott.common._settings import load
from flott.common.configuration import Configuration
from flott.runtime.storage.locations import is_object_location, normalized
from flott.runtime.storage.object_store import ObjectStorage
from flott.runtime.storage.posix import PosixStorage
from flott.runtime.storage.protocol import Storage

_settings: ObjectStoreSettings | None = None


def initialize_object_stores(settings: ObjectStoreSettings | Configuration) -> None:
    """Set how this process reaches object stores."""
    global _settings
    _settings = object_store_settings(settings) if isinstance(settings, Configuration) else settings


def open_object_storage(location: str) -> ObjectStorage:
    """Return the storage of a location that is in an object store."""
    if _settings is None:
        initialize_object_stores(load({}).configuration)
    return ObjectStorage(normalized(location), _settings or ObjectStoreSettings())


def open_storage(location: str, *, sync: bool = True) -> Storage:
    """Return the storage whose root is a location: a path, or a URI."""
    location = normalized(location)
    if is_object_location(location):
        return open_object_storage(location)
    return PosixStorage(location, sync)
