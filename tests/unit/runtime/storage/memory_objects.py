"""An object store in memory, with the conditional puts of a real one. Tests can make its requests fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from hashlib import md5

from flott.runtime.storage.object_client import ObjectConflict, ObjectMeta, ObjectMissing, ObjectStoreFailure


class MemoryObjects:
    """One bucket. Versions are digests of the content, as those of S3 are: equal content has an equal version."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.requests: list[str] = []
        #: Called before each request with what it does: it may raise an error, or let others go first.
        self.before: Callable[[str, str], None] = lambda verb, key: None
        #: Called after each change was made: what it raises is an answer that was lost.
        self.after: Callable[[str, str], None] = lambda verb, key: None
        self._lock = threading.RLock()
        self._time = 0

    def _asked(self, verb: str, key: str) -> None:
        self.requests.append(f"{verb} {key}")
        self.before(verb, key)

    def get(self, key: str) -> tuple[bytes, ObjectMeta]:
        self._asked("get", key)
        with self._lock:
            if key not in self.objects:
                raise ObjectMissing(2, "No such object")
            return self.objects[key][0], self._meta(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._asked("get", key)
        with self._lock:
            if key not in self.objects:
                raise ObjectMissing(2, "No such object")
            return self.objects[key][0][start : start + length]

    def head(self, key: str) -> ObjectMeta | None:
        self._asked("head", key)
        with self._lock:
            return self._meta(key) if key in self.objects else None

    def put(self, key: str, data: bytes) -> str:
        self._asked("put", key)
        return self._store("put", key, data)

    def create(self, key: str, data: bytes) -> str:
        self._asked("create", key)
        with self._lock:
            if key in self.objects:
                raise ObjectConflict("it exists")
            version = self._store("create", key, data, told=False)
        self.after("create", key)
        return version

    def replace(self, key: str, data: bytes, etag: str) -> str:
        self._asked("replace", key)
        with self._lock:
            if key not in self.objects or self._version(key) != etag:
                raise ObjectConflict("it has changed")
            version = self._store("replace", key, data, told=False)
        self.after("replace", key)
        return version

    def upload(self, key: str) -> _Upload:
        self._asked("upload", key)
        return _Upload(self, key)

    def copy(self, source: str, key: str) -> None:
        self._asked("copy", key)
        with self._lock:
            if source not in self.objects:
                raise ObjectMissing(2, "No such object")
            self._store("copy", key, self.objects[source][0], told=False)
        self.after("copy", key)

    def delete(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self._asked("delete", key)
            with self._lock:
                self.objects.pop(key, None)
            self.after("delete", key)

    def walk(self, prefix: str) -> Iterator[ObjectMeta]:
        self._asked("list", prefix)
        with self._lock:
            found = [self._meta(key) for key in sorted(self.objects) if key.startswith(prefix)]
        yield from found

    def children(self, prefix: str) -> list[str]:
        self._asked("list", prefix)
        with self._lock:
            return sorted({key[len(prefix) :].partition("/")[0] for key in self.objects if key.startswith(prefix)})

    def _store(self, verb: str, key: str, data: bytes, *, told: bool = True) -> str:
        with self._lock:
            self._time += 1
            self.objects[key] = bytes(data), self._time
            version = self._version(key)
        if told:
            self.after(verb, key)
        return version

    def _version(self, key: str) -> str:
        return md5(self.objects[key][0]).hexdigest()

    def _meta(self, key: str) -> ObjectMeta:
        data, time = self.objects[key]
        return ObjectMeta(key, len(data), self._version(key), time * 1_000_000)


class _Upload:
    def __init__(self, store: MemoryObjects, key: str):
        self._store = store
        self._key = key
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._parts.append(data)

    def close(self) -> None:
        self._store.put(self._key, b"".join(self._parts))


def failure() -> ObjectStoreFailure:
    """Return what a request raises that has no answer."""
    return ObjectStoreFailure(5, "the test says so")
