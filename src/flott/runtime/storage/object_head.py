"""The head of a folder in an object store: one object that says who leads and what is published. Driver side.

An object store has no rename, but it can replace an object on the condition that it still is the version that was read.
So everything that a leader publishes in a folder is *visible through one object*, the head:

    <folder>/fence/head          {"token": 17, "owner": "3fa0…", "change": "91c2…", "files": {"chk-5/_metadata": …}}
    <folder>/published/<unique>  the content of a published file that is too large to stand in the head itself

To publish is to write the content under a key of its own and then to replace the head by one that names it. To delete
is to replace the head by one that does not name the file, and then to delete the content. To take over is to replace
the head by one with another owner. Each is one conditional put: of two leaders that try, one fails, whatever each of
them checked before and however long it was stopped. A leader whose put fails reads the head and finds the other one.

A put may fail without an answer, and may still be carried out later, when its writer has been told that it failed. Then
the change is *in doubt*. As long as that is so, ``check`` does not merely read the head but replaces it. From then on
the condition of the doubtful put is not met; if it was carried out before, the replacement takes back what it did. So
nothing that depends on "it did not happen" is done before it is certain. Every version of the head has a ``change`` of
its own: some stores compare versions by their content, and two must never be equal.

Decision 0023 says why this is enough, also for deletions.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from flott.common._object_store_settings import ObjectStoreSettings
from flott.errors import CorruptStateError, JobLockedError, LeadershipLostError, StorageError
from flott.runtime.storage import object_client
from flott.runtime.storage.locations import join
from flott.runtime.storage.object_client import ObjectClient, ObjectConflict, ObjectMissing, ObjectStoreFailure, key_of

VERSION = 1
HEAD = "fence/head"
PUBLISHED = "published"
#: A file of at most so many bytes stands in the head itself, which saves a request.
INLINE_BYTES = 4096

#: Seconds before a change that failed is tried again. The library repeats only what may be repeated blindly.
RETRY_DELAYS = (0.1, 0.4, 1.5, 5.0)

#: What is published under a name: its content, or the key (below the folder) of the object that holds it.
Entry = Mapping[str, str]


@dataclass(frozen=True)
class Head:
    """One version of the head."""

    token: int = 0  #: the highest one that has led here
    owner: str | None = None  #: the process that leads; None: it has given the folder up
    change: str = ""  #: different for every version
    files: Mapping[str, Entry] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the content of the object."""
        content = {
            "version": VERSION, "token": self.token, "owner": self.owner, "change": self.change,
            "files": {name: dict(self.files[name]) for name in sorted(self.files)},
        }  # fmt: skip
        return json.dumps(content).encode()

    @staticmethod
    def decode(data: bytes, where: str) -> Head:
        """Return the head that the content of an object says."""
        try:
            content = json.loads(data)
            if content["version"] != VERSION:
                raise CorruptStateError(
                    f"{where} has format version {content['version']}; this version of Flott reads version {VERSION}."
                )
            return Head(content["token"], content["owner"], content["change"], content["files"])
        except (LookupError, ValueError, TypeError) as error:
            raise CorruptStateError(f"{where} is damaged: {type(error).__name__} {error}.") from error

    def without(self, names: set[str]) -> Head:
        """Return a head that does not name these files."""
        return replace(self, files={name: entry for name, entry in self.files.items() if name not in names})


def inline(data: bytes) -> Entry:
    """Return the entry of a small file."""
    return {"data": b64encode(data).decode(), "change": uuid4().hex[:8]}


def content_of(entry: Entry) -> bytes | None:
    """Return the content that stands in an entry; None if it is in an object of its own."""
    return b64decode(entry["data"]) if "data" in entry else None


def read_head(client: ObjectClient, folder: str) -> tuple[Head, str] | None:
    """Return the head of a folder and its version, if it has one."""
    try:
        data, meta = client.get(join(key_of(folder), HEAD) if key_of(folder) else HEAD)
    except ObjectMissing:
        return None
    return Head.decode(data, join(folder, HEAD)), meta.etag


def change_as_guest(client: ObjectClient, folder: str, change: Callable[[Head], Head]) -> None:
    """Change what a folder publishes without leading there, as the disposal of a savepoint does with its pin."""
    while True:
        found = read_head(client, folder)
        if found is None:
            return
        head, etag = found
        try:
            client.replace(key_of(join(folder, HEAD)), _stamped(change(head)).encode(), etag)
            return
        except ObjectConflict:
            continue


def _stamped(head: Head) -> Head:
    return replace(head, change=uuid4().hex)


class ObjectFence:
    """A leader's part in the fence of a folder in an object store. What it has seen does not travel with it."""

    def __init__(self, root: str, token: int, settings: ObjectStoreSettings, nonce: str | None = None):
        self.root = root  #: the folder that is protected
        self.token = token
        self.nonce = nonce or uuid4().hex  #: tells two processes of one leader apart
        self._settings = settings
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._known: tuple[Head, str] | None = None  #: what this process last wrote or read, and its version
        #: Names whose last publication is in doubt: the entry that may have been published, and the one before it.
        self._doubtful: dict[str, tuple[Entry, Entry | None]] = {}
        self.is_in_doubt = False  #: a put of the head may still be carried out

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "token": self.token, "nonce": self.nonce, "_settings": self._settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def _client(self) -> ObjectClient:
        return object_client.client_of(self.root, self._settings)

    @property
    def _key(self) -> str:
        return key_of(join(self.root, HEAD))

    # --- leading ------------------------------------------------------------------------------------------------------

    def claim(self, *, take_over: bool = True) -> None:
        """Become the owner of the head. Refuse to if there is, or was, a leader with a higher token.

        Without an election (token 0) the process that comes last becomes the owner. ``take_over`` False: only if the
        head has no owner.
        """
        with self._lock:
            delays = iter(RETRY_DELAYS)
            while True:
                found = self._request("read", self._read)
                head, etag = found if found is not None else (Head(), "")
                self._refuse(head, take_over)
                wanted = _stamped(replace(head, token=max(head.token, self.token), owner=self.nonce))
                try:
                    put = self._client.replace if etag else self._create
                    self._known = wanted, put(self._key, wanted.encode(), etag)
                    return
                except ObjectConflict:
                    continue  # another process came first, or this put was carried out and its answer was lost
                except ObjectStoreFailure as error:
                    if (delay := next(delays, None)) is None:
                        raise self._failure("claim", error) from error
                    time.sleep(delay)

    def _create(self, key: str, data: bytes, etag: str) -> str:
        return self._client.create(key, data)

    def _refuse(self, head: Head, take_over: bool) -> None:
        if head.owner == self.nonce:
            return
        if head.token > self.token and (self.token or head.owner is not None):
            if self.token:
                raise LeadershipLostError(
                    f"A JobManager with token {head.token} has taken over {self.root}; this one's is {self.token}."
                )
            raise JobLockedError(
                f"The job in {self.root} is run by a JobManager with high availability (token {head.token}). Ask that"
                " one, or the next one, which goes on with the job; if there is to be none any more, delete"
                f" {join(self.root, HEAD)}."
            )
        if head.owner is not None and not take_over:
            raise JobLockedError(
                f"Another process is running the job in {self.root}, or has died without giving it up. Stop it first."
            )

    def check(self) -> None:
        """Raise ``LeadershipLostError`` once another leader has taken over; settle what is in doubt."""
        with self._lock:
            if self.is_in_doubt:
                self.change(lambda head: head)
            else:
                self._adopt(self._request("read", self._read))

    def release(self) -> None:
        """Give the folder up. That a leader with this token was here stays known."""
        with self._lock:
            if self._known is None:
                return
            with suppress(StorageError, LeadershipLostError):  # the next process takes it over
                self.change(lambda head: replace(head, owner=None))
            self._known = None

    # --- changing what is published -----------------------------------------------------------------------------------

    def publish(self, name: str, entry: Entry) -> None:
        """Name a file. After an error it is not named, and will not be."""
        with self._lock:
            before = self._head().files.get(name)
            # A change that was in doubt under this name is replaced by this one, or taken back with it.
            before = self._doubtful[name][1] if name in self._doubtful else before
            try:
                self.change(lambda head: replace(head, files={**head.files, name: entry}))
            except StorageError:
                self._doubtful[name] = entry, before
                raise

    def change(self, change: Callable[[Head], Head]) -> Head:
        """Replace the head. Raises ``LeadershipLostError`` if another leader has; then nothing has changed."""
        with self._lock:
            delays = iter(RETRY_DELAYS)
            while True:
                head, etag = self._owned()
                wanted = _stamped(change(head))
                self.is_in_doubt = True
                try:
                    self._known = wanted, self._client.replace(self._key, wanted.encode(), etag)
                except (ObjectConflict, ObjectMissing):
                    found = self._request("read", self._read)
                    if found is not None and found[0].change == wanted.change:
                        self._known = found  # it was carried out, and its answer was lost
                    else:
                        self._adopt(found)  # a guest has changed it, or a put that was in doubt was carried out
                        continue
                except ObjectStoreFailure as error:
                    if (delay := next(delays, None)) is None:
                        raise self._failure("change", error) from error
                    time.sleep(delay)
                    if (found := self._request("read", self._read)) is None or found[0].change != wanted.change:
                        self._adopt(found)
                        continue
                    self._known = found  # it was carried out, and its answer was lost
                self.is_in_doubt = False
                self._doubtful.clear()
                return wanted

    def view(self) -> Head:
        """Return what is published, as this process knows it: without what it was told did not happen."""
        with self._lock:
            if self._known is None:
                found = self._request("read", self._read)
                return found[0] if found is not None else Head()
            self._adopt(self._request("read", self._read))
            return self._head()

    def owned(self) -> Head:
        """Return what is published; raise ``LeadershipLostError`` unless this process leads."""
        with self._lock:
            self.check()
            return self._head()

    def _owned(self) -> tuple[Head, str]:
        if self._known is None:
            raise LeadershipLostError(f"This process does not lead in {self.root}: it has not claimed it.")
        return self._known

    def _head(self) -> Head:
        return self._owned()[0]

    def _adopt(self, found: tuple[Head, str] | None) -> None:
        """Go on from what was found, if this process still leads, without what was in doubt."""
        self._owned()
        if found is None or found[0].owner != self.nonce:
            raise LeadershipLostError(
                f"Another process has taken over {self.root} from the one with token {self.token}, or the folder was"
                " deleted: nothing can be changed there from here any more."
            )
        head, etag = found
        files = dict(head.files)
        for name, (entry, before) in self._doubtful.items():
            if files.get(name) == entry:
                del files[name]
                if before is not None:
                    files[name] = before
        self._known = replace(head, files=files), etag

    def _read(self) -> tuple[Head, str] | None:
        return read_head(self._client, self.root)

    def _request(self, verb: str, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except ObjectStoreFailure as error:
            raise self._failure(verb, error) from error

    def _failure(self, verb: str, error: OSError) -> StorageError:
        return StorageError(
            f"Cannot {verb} {join(self.root, HEAD)}: {error.strerror}. Check the object store's address, and that the"
            " credentials allow to read, write, list and delete there."
        )
