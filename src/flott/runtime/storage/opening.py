"""Which kind of storage a location is in: the only place that knows all kinds. Driver and task side."""

from __future__ import annotations

from flott.errors import ConfigurationError
from flott.runtime.storage.locations import is_object_location, normalized
from flott.runtime.storage.posix import PosixStorage
from flott.runtime.storage.protocol import Storage


def open_storage(location: str, *, sync: bool = True) -> Storage:
    """Return the storage whose root is a location: a path, or a URI."""
    location = normalized(location)
    if is_object_location(location):
        raise ConfigurationError(f"{location}: object stores are not supported yet.")
    return PosixStorage(location, sync)
