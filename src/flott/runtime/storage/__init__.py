"""Durable files: a protocol, and one module for each kind of storage. Driver and task side.

    protocol       what every storage does
    locations      local paths and URIs, as text
    opening        the one place that knows which location is in which kind of storage
    posix          a folder of a local, or a mounted and shared, file system
    posix_fence    how a deposed leader is kept out of such a folder: by renames (decision 0020)
    object_store   a folder of an object store
    object_head    how a deposed leader is kept out of such a folder: by conditional puts (decision 0023)
    object_client  the requests that an object store answers
"""

from flott.runtime.storage.locations import local_path
from flott.runtime.storage.opening import initialize_object_stores, open_storage
from flott.runtime.storage.posix import DRAFT, PosixStorage, is_full, sync_folder
from flott.runtime.storage.protocol import Fence, Storage

__all__ = [
    "DRAFT",
    "Fence",
    "PosixStorage",
    "Storage",
    "initialize_object_stores",
    "is_full",
    "local_path",
    "open_storage",
    "sync_folder",
]
