"""Locations: a local path, or the URI of an object store. Pure: nothing here looks at a storage.

A storage has a *root*, which is a location. A *name* is relative to the root, with ``/`` between folders, or it is a
location itself (an absolute name), which need not be below the root.
"""

from __future__ import annotations

import os

from flott.common._object_store_settings import SCHEMES, is_object_location
from flott.errors import ConfigurationError

__all__ = [
    "is_absolute", "is_object_location", "join", "last_part_of", "local_path", "normalized", "parent_of", "resolved",
    "scheme_of",
]  # fmt: skip


def scheme_of(location: str) -> str:
    """Return what stands before ``://``; an empty string for a local path."""
    scheme, separator, _ = location.partition("://")
    return scheme.lower() if separator else ""


def is_absolute(name: str) -> bool:
    """Return whether a name is a location by itself.

    >>> is_absolute("state/a"), is_absolute("/jobs/state/a"), is_absolute("s3://jobs/state/a")
    (False, True, True)
    """
    return os.path.isabs(name) or is_object_location(name)


def join(root: str, name: str) -> str:
    """Return the location of a name below a root; an absolute name stays what it is.

    >>> join("s3://bucket/job", "chk-1/_metadata")
    's3://bucket/job/chk-1/_metadata'
    """
    if is_absolute(name):
        return name
    if name in ("", "."):
        return root
    return f"{root.rstrip('/')}/{name}" if is_object_location(root) else os.path.join(root, name)


def parent_of(location: str) -> str:
    """Return the folder that a location is in."""
    return location.rstrip("/").rpartition("/")[0] if is_object_location(location) else os.path.dirname(location)


def last_part_of(location: str) -> str:
    """Return the last part of a location, such as the id of a job whose directory it is."""
    return location.rstrip("/").rpartition("/")[2]


def normalized(location: str) -> str:
    """Return a location in its one spelling: a path for ``file:`` URIs, no slash at the end of others.

    >>> normalized("file:///data/in"), normalized("s3://bucket/job/")
    ('/data/in', 's3://bucket/job')
    """
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    if is_object_location(location):
        bucket = location.partition("://")[2].strip("/")
        if not bucket or bucket.startswith("."):
            raise ConfigurationError(f"{location} names no bucket. Write it as {scheme_of(location)}://bucket/folder.")
        return location.rstrip("/")
    if scheme := scheme_of(location):
        raise ConfigurationError(
            f"Flott cannot use {location}: it knows no storage {scheme}://. Name a path of a file system that is"
            " mounted on the driver and on all executors, or an object store"
            f" ({', '.join(f'{known}://' for known in SCHEMES)})."
        )
    return location


def resolved(location: str) -> str:
    """Return a normalized location that does not depend on the working directory or on symbolic links."""
    location = normalized(location)
    return location if is_object_location(location) else os.path.realpath(location)


def local_path(location: str) -> str:
    """Return a local path from a path or a ``file:`` URI; refuse an object store where only a file system will do."""
    if is_object_location(location):
        raise ConfigurationError(
            f"{location} is in an object store, and what is kept here needs a file system: name a path that is mounted"
            " on all machines that use it."
        )
    return normalized(location)
