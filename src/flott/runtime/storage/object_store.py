"""A storage in an object store: S3, Azure Blob Storage, Google Cloud Storage. Driver and task side.

    <root>/fence/head        who leads here, and what is published (``object_head``)
    <root>/published/<...>   the content of published files that do not stand in the head
    <root>/<name>            a file that was created: an object of its own

A folder without a head is one of a single writer, such as a savepoint: what is published there is an object of its own,
created on the condition that it is not there yet. A file that must never be published any more is *sealed*: an object
that says so takes its place, and the condition of a late put is not met.

Deletions cannot be conditional everywhere, so a late one must be harmless. Keys are never used twice, and a key is
deleted only after it was found, then seen not to be referred to by the head, and then the head was seen to be still
this leader's: what was found before is not of a successor, and what the head of that moment does not refer to no later
head refers to (decision 0023).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TypeVar, cast
from uuid import uuid4

from flott.common._object_store_settings import ObjectStoreSettings
from flott.errors import StorageError
from flott.runtime.storage import object_client
from flott.runtime.storage.locations import is_absolute, is_object_location, join, parent_of
from flott.runtime.storage.object_client import (
    ObjectClient,
    ObjectConflict,
    ObjectMeta,
    ObjectMissing,
    ObjectStoreFailure,
    Upload,
    bucket_of,
    key_of,
)
from flott.runtime.storage.object_head import (
    HEAD,
    INLINE_BYTES,
    PUBLISHED,
    Entry,
    Head,
    ObjectFence,
    change_as_guest,
    content_of,
    inline,
    read_head,
)
from flott.runtime.storage.protocol import Fence, Lock, Storage

T = TypeVar("T")

#: A file of at most so many bytes is fetched as a whole when it is opened.
WHOLE_BYTES = 1 << 20
#: How much of a larger file is fetched at a time, if its reader asks for less.
READ_AHEAD_BYTES = 1 << 20
#: What one request can copy within a store; a larger object goes through this process.
COPY_BYTES = 5 << 30
#: The content of a file that cannot be published any more.
SEAL = b"flott: this file was given up before it was complete\n"


@dataclass(frozen=True)
class ObjectStorage:
    """A folder of an object store. A value: it travels to tasks."""

    root: str
    settings: ObjectStoreSettings = field(default_factory=ObjectStoreSettings)
    fence: Fence | None = None  #: refuses to publish and delete for a leader that was deposed
    sync: bool = True  #: an object store has no other way

    @property
    def client(self) -> ObjectClient:
        """The client of the bucket."""
        return object_client.client_of(self.root, self.settings)

    # --- reading ------------------------------------------------------------------------------------------------------

    def location(self, name: str) -> str:
        return join(self.root, name)

    def read(self, name: str) -> bytes:
        return self._do("read", name, lambda: self._read(name))

    def _read(self, name: str) -> bytes:
        if (other := self._elsewhere(name)) is not None:
            return other.read(name)
        with suppress(ObjectMissing):
            data, _ = self.client.get(self._key(name))
            if data != SEAL:
                return data
            raise ObjectMissing(2, "The file was given up before it was complete")
        if (found := self._published(name)) is None:
            raise ObjectMissing(2, "No such object")
        return found

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        if (other := self._elsewhere(name)) is not None:
            with other.open(name) as file:
                yield file
            return
        with self.opened(name) as file:
            yield file

    def opened(self, name: str) -> BinaryIO:
        """Open a file of this bucket, which the caller closes."""
        return cast(BinaryIO, self._do("read", name, lambda: self._open(name)))

    def files_at(self, name: str) -> Sequence[tuple[str, int]]:
        """Return the locations and sizes of a file, or of all files below a folder, sorted; not of published ones."""
        bucket = bucket_of(self.root)
        return sorted((f"{bucket}/{meta.key}", meta.size) for meta in self._do("list", name, lambda: self._files(name)))

    def _files(self, name: str) -> Sequence[ObjectMeta]:
        if (key := self._key(name)) and (meta := self.client.head(key)) is not None:
            return [meta]
        return tuple(self.client.walk(self._prefix(name)))

    def _open(self, name: str) -> Any:
        meta = self.client.head(self._key(name))
        if meta is None:
            raise ObjectMissing(2, "No such object")
        if meta.size <= WHOLE_BYTES:
            return io.BytesIO(self.client.get(meta.key)[0])
        return io.BufferedReader(_RangedFile(self, name, meta), READ_AHEAD_BYTES)

    def list(self, folder: str) -> Iterator[str]:
        yield from self._do("list", folder, lambda: self._list(folder))

    def _list(self, folder: str) -> Sequence[str]:
        prefix = self._prefix(folder)
        found = set(self.client.children(prefix))
        for base, head in self._heads():
            below = prefix.removeprefix(base)
            found |= {name.removeprefix(below).partition("/")[0] for name in head.files if name.startswith(below)}
        return sorted(found)

    def exists(self, name: str) -> bool:
        return self._do("look for", name, lambda: self._exists(name))

    def _exists(self, name: str) -> bool:
        if (other := self._elsewhere(name)) is not None:
            return other.exists(name)
        if self._key(name) and (meta := self.client.head(self._key(name))) is not None:
            return not self._is_sealed(meta)
        if self._published(name) is not None:
            return True
        return next(iter(self.client.walk(self._prefix(name))), None) is not None or bool(self._list(name))

    def _is_sealed(self, meta: ObjectMeta) -> bool:
        return meta.size == len(SEAL) and self.client.get(meta.key)[0] == SEAL

    def size(self, name: str) -> int:
        return self._do("read", name, lambda: self._size(name))

    def _size(self, name: str) -> int:
        if (other := self._elsewhere(name)) is not None:
            return other.size(name)
        if (meta := self.client.head(self._key(name))) is not None:
            return meta.size
        return len(self._read(name))

    def modified_ns(self, name: str) -> int:
        return self._do("look for", name, lambda: self._modified_ns(name))

    def _modified_ns(self, name: str) -> int:
        if (meta := self.client.head(self._key(name))) is not None:
            return meta.modified_ns
        if self._published(name) is None:
            return 0
        head = self.client.head(self._key(HEAD))  # published at the latest then
        return head.modified_ns if head is not None else 0

    @property
    def is_reachable(self) -> bool:
        return True  # a store that cannot be reached raises an error

    # --- writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        if (other := self._elsewhere(name)) is not None:
            with other.create(name) as file:
                yield file
            return
        upload = self._do("write", name, lambda: self.client.upload(self._key(name)))
        try:
            # What is not closed leaves no object.
            yield cast(BinaryIO, _UploadedFile(self, name, upload))
        except ObjectStoreFailure as error:
            raise self._failure("write", name, error) from error
        self._do("write", name, upload.close)

    def write(self, name: str, data: bytes) -> None:
        with self.create(name) as file:
            file.write(data)

    def copy(self, source: str, name: str) -> None:
        here = self._elsewhere(source) is None and self._elsewhere(name) is None
        if here and self.size(source) <= COPY_BYTES:
            self._do("write", name, lambda: self.client.copy(self._key(source), self._key(name)))
            return
        with self.open(source) as original, self.create(name) as copied:
            while data := original.read(READ_AHEAD_BYTES):
                copied.write(data)

    def flush(self, names: Iterable[str]) -> None:
        """Do nothing: an object that was written is durable."""

    # --- what only a leader may do ------------------------------------------------------------------------------------

    def publish(self, name: str, data: bytes) -> None:
        if self.fence is not None and self._is_home:
            self._do("write", name, lambda: self._publish(self._home(), name, data))
        else:
            if self.fence is not None:
                self.fence.check()
            self._do("write", name, lambda: self._publish_alone(name, data))

    def _publish(self, fence: ObjectFence, name: str, data: bytes) -> None:
        if len(data) <= INLINE_BYTES:
            fence.publish(name, inline(data))
            return
        content = f"{PUBLISHED}/{name.replace('/', '.')}-{uuid4().hex}"
        self.client.put(self._key(content), data)
        fence.publish(name, {"object": content})

    def _publish_alone(self, name: str, data: bytes) -> None:
        """Publish in a folder that has no head: one object, created if it is not there."""
        key = self._key(name)
        try:
            self.client.create(key, data)
        except ObjectConflict:
            found, meta = self.client.get(key)
            if found == SEAL:
                raise StorageError(
                    f"Cannot write {self.location(name)}: another process has given it up, since this one was taken"
                    " for dead."
                ) from None
            if found != data:
                self.client.replace(key, data, meta.etag)
        except ObjectStoreFailure:
            self._settle(key, data)

    def _settle(self, key: str, data: bytes) -> None:
        """After a put without an answer: make sure that it was carried out, or never will be."""
        with suppress(ObjectConflict):
            self.client.create(key, SEAL)
            raise ObjectStoreFailure(5, "the object store did not answer, and the file was given up")
        if self.client.get(key)[0] != data:
            raise ObjectStoreFailure(5, "the object store did not answer")

    def seal(self, name: str) -> None:
        with suppress(ObjectConflict):  # it is there, complete or sealed
            self._do("write", name, lambda: self.client.create(self._key(name), SEAL))

    def delete(self, name: str) -> None:
        self.delete_all([name])

    def delete_all(self, names: Iterable[str]) -> None:
        wanted = list(names)
        if wanted:
            self._do("delete", wanted[0], lambda: self._delete(wanted))

    def _delete(self, names: Sequence[str]) -> None:
        here = [name for name in names if self._elsewhere(name) is None]
        for name in names:
            if (other := self._elsewhere(name)) is not None:
                other.delete(name)
        published, contents = self._unpublish(set(here))
        keys = [self._key(name) for name in here if name not in published]
        self.client.delete([*(key for key in keys if not self._keeps(key)), *contents])

    def _keeps(self, key: str) -> bool:
        """Return whether a file is sealed: a seal stays where it is, or a late put could take its place."""
        if self._is_home:
            return False
        meta = self.client.head(key)
        return meta is not None and self._is_sealed(meta)

    def delete_folder(self, name: str) -> None:
        self._do("delete", name, lambda: self._delete_folder(name))

    def _delete_folder(self, name: str) -> None:
        prefix = self._prefix(name)
        keys = [meta.key for meta in self.client.walk(prefix) if meta.key != self._key(HEAD)]
        below = prefix.removeprefix(self._prefix(""))
        found = {file for _, head in self._heads() for file in head.files if file.startswith(below)}
        _, contents = self._unpublish(found)
        self.client.delete([*keys, *(content for content in contents if content not in keys)])

    def drop_folder(self, name: str) -> None:
        """Do nothing: a folder is there as long as an object is in it."""

    def drafts(self, folders: Iterable[str]) -> Iterator[str]:
        """Yield the contents of files that were about to be published, or are not published any more."""
        found = [f"{PUBLISHED}/{name}" for name in self.list(PUBLISHED)]
        head = self._do("read", HEAD, lambda: self._home().owned() if self._is_home else self._request_head(self.root))
        used = {entry.get("object") for entry in head.files.values()} if head is not None else set()
        yield from (name for name in found if name not in used)

    def delete_root(self) -> None:
        """Delete everything but the head, which says from then on that nothing is published and no process leads."""
        self._do("delete", ".", self._delete_root)

    def _delete_root(self) -> None:
        keys = [meta.key for meta in self.client.walk(self._prefix("")) if meta.key != self._key(HEAD)]
        if self.fence is not None and self._is_home:
            self._home().change(lambda head: replace(head, files={}))
        else:
            change_as_guest(self.client, self.root, lambda head: replace(head, files={}))
        self.client.delete(keys)

    def _unpublish(self, names: set[str]) -> tuple[set[str], Sequence[str]]:
        """Make sure that files are not published, and that this process leads.

        Returns which of them were published, and the keys of their contents.
        """
        if self.fence is not None and not self._is_home:
            self.fence.check()
            return set(), []
        if self.fence is None:
            found = self._request_head(self.root)
            if found is None or not names & found.files.keys():
                return set(), []
            change_as_guest(self.client, self.root, lambda head: head.without(names))
            return names & found.files.keys(), self._contents(found, names)
        head = self._home().owned()
        if names & head.files.keys():
            self._home().change(lambda head: head.without(names))
        return names & head.files.keys(), self._contents(head, names)

    def _contents(self, head: Head, names: set[str]) -> Sequence[str]:
        entries = [head.files[name] for name in names if name in head.files]
        return [self._key(entry["object"]) for entry in entries if "object" in entry]

    # --- what is published --------------------------------------------------------------------------------------------

    def _heads(self) -> Iterator[tuple[str, Head]]:
        """Yield the heads that may publish something in this folder, each with the prefix of its folder.

        A checkpoint is opened by its own folder, which is published by the head of the job's folder above it.
        """
        if self.fence is not None and self._is_home:
            yield self._prefix(""), self._home().view()
            return
        for folder in (self.root, parent_of(self.root)):
            if key_of(folder) and (head := self._request_head(folder)) is not None:
                yield f"{key_of(folder)}/", head

    def _request_head(self, folder: str) -> Head | None:
        found = read_head(self.client, folder)
        return found[0] if found is not None else None

    def _published(self, name: str) -> bytes | None:
        key = self._key(name)
        for base, head in self._heads():
            entry = head.files.get(key.removeprefix(base))
            if entry is not None:
                content = content_of(entry)
                return content if content is not None else self.client.get(f"{base}{entry['object']}")[0]
        return None

    def published(self, folder: str) -> dict[str, Entry]:
        """Return what is published below a folder, by one look at the head, with names below the root."""
        prefix = self._prefix(folder).removeprefix(self._prefix(""))
        heads = self._do("read", HEAD, lambda: [head for base, head in self._heads() if base == self._prefix("")])
        return {name: entry for head in heads for name, entry in head.files.items() if name.startswith(prefix)}

    def content_of(self, entry: Entry) -> bytes:
        """Return the content of a file that is published."""
        content = content_of(entry)
        if content is not None:
            return content
        return self._do("read", entry["object"], lambda: self.client.get(self._key(entry["object"]))[0])

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file that is not there; return False if it is there with another content."""
        try:
            self._do("write", name, lambda: self.client.create(self._key(name), data))
        except ObjectConflict:  # or it was this put, which the library has repeated because its answer was lost
            return self._do("read", name, lambda: self.client.get(self._key(name))[0] == data)
        return True

    # --- related storages ---------------------------------------------------------------------------------------------

    def at(self, root: str, *, sync: bool | None = None) -> Storage:
        if not is_object_location(root):
            from flott.runtime.storage.posix import PosixStorage

            return PosixStorage(root, True if sync is None else sync, self.fence)
        return replace(self, root=root)

    def fenced(self, token: int) -> Storage:
        return replace(self, fence=ObjectFence(self.root, token, self.settings))

    def unfenced(self) -> Storage:
        return replace(self, fence=None)

    def prepare(self) -> None:
        """Make sure that the store answers."""
        self._do("use", ".", lambda: self.client.head(self._key(HEAD)))

    def lock(self, name: str, *, shared: bool) -> Lock | None:
        return _NoLock()

    @property
    def has_locks(self) -> bool:
        return False

    def remove_root(self) -> None:
        """Do nothing: a folder is there as long as an object is in it."""

    # --- names and errors ---------------------------------------------------------------------------------------------

    @property
    def _is_home(self) -> bool:
        """Whether this is the folder that the fence protects, or another one that its leader writes to."""
        return isinstance(self.fence, ObjectFence) and self.fence.root == self.root

    def _home(self) -> ObjectFence:
        assert isinstance(self.fence, ObjectFence)
        return self.fence

    def _key(self, name: str) -> str:
        return key_of(self.location(name))

    def _prefix(self, folder: str) -> str:
        key = self._key(folder)
        return f"{key}/" if key else ""

    def _elsewhere(self, name: str) -> Storage | None:
        """Return the storage of a name that is not in this bucket."""
        if not is_absolute(name) or (is_object_location(name) and bucket_of(name) == bucket_of(self.root)):
            return None
        return self.at(parent_of(name)).unfenced()

    def _do(self, verb: str, name: str, request: Callable[[], T]) -> T:
        try:
            return request()
        except (ObjectMissing, ObjectStoreFailure) as error:
            raise self._failure(verb, name, error) from error

    def _failure(self, verb: str, name: str, error: OSError) -> StorageError:
        return StorageError(
            f"Cannot {verb} {self.location(name)}: {error.strerror}. Check the object store's address (s3.endpoint,"
            " s3.region), and that the credentials of this machine allow to read, write, list and delete there."
        )


class _NoLock:
    """An object store has no locks that go with their process: the fence keeps a former process out."""

    def close(self) -> None:
        """Do nothing."""


class _RangedFile(io.RawIOBase):
    """An object that is read by ranges."""

    def __init__(self, storage: ObjectStorage, name: str, meta: ObjectMeta):
        self._storage = storage
        self._name = name
        self._meta = meta
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._meta.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._meta.size - self._position)
        if length <= 0:
            return 0
        client = self._storage.client
        data = self._storage._do(
            "read", self._name, lambda: client.get_range(self._meta.key, self._position, length)
        )
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class _UploadedFile(io.RawIOBase):
    """An object that is written from front to back."""

    def __init__(self, storage: ObjectStorage, name: str, upload: Upload):
        self._storage = storage
        self._name = name
        self._upload = upload
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._storage._do("write", self._name, lambda: self._upload.write(content))
        self._position += len(content)
        return len(content)
