"""The few requests to an object store that a storage is made of, and the library that sends them. Driver and task side.

The library is obstore, the Python binding of Rust's ``object_store``: one interface to S3, Azure Blob Storage and
Google Cloud Storage, with conditional puts, multipart uploads and retries with backoff. It is imported when the first
location of an object store is used.

A request that fails may have been carried out: the answer was lost, or comes after this process has stopped waiting.
The client only reports that (``ObjectStoreFailure``). What it means is decided by the modules that use it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from flott.common._object_store_settings import ObjectStoreSettings
from flott.errors import ConfigurationError
from flott.runtime.storage.locations import scheme_of

#: What is uploaded in one request; a larger object is a multipart upload. S3 wants parts of at least 5 MiB.
PART_BYTES = 8 << 20
#: How many parts of one object are uploaded at a time: with PART_BYTES, what an upload keeps in memory.
CONCURRENT_PARTS = 3
_FIRST_BACKOFF = timedelta(milliseconds=100)
_LONGEST_BACKOFF = timedelta(seconds=10)


class ObjectMeta(NamedTuple):
    """What an object store says about an object."""

    key: str
    size: int
    etag: str
    modified_ns: int


class ObjectMissing(FileNotFoundError):
    """There is no such object."""


class ObjectConflict(Exception):
    """The condition of a put was not met: the object exists, or is not the version that was expected."""


class ObjectStoreFailure(OSError):
    """A request failed after all retries. If it was to change something, it may have done so, or may still do so."""


class Upload(Protocol):
    """An object that is being written. It appears when it is closed."""

    def write(self, data: bytes) -> None:
        """Add some bytes."""

    def close(self) -> None:
        """Make the object appear."""


class ObjectClient(Protocol):
    """One bucket. Keys are complete: they do not begin with a slash."""

    def get(self, key: str) -> tuple[bytes, ObjectMeta]:
        """Return an object and its version."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return some bytes of an object."""

    def head(self, key: str) -> ObjectMeta | None:
        """Return what is known of an object, if it is there."""

    def put(self, key: str, data: bytes) -> str:
        """Write an object, whether it is there or not; return its version."""

    def create(self, key: str, data: bytes) -> str:
        """Write an object that must not be there (``ObjectConflict``); return its version."""

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Write an object that must have this version (``ObjectConflict``); return its new version."""

    def upload(self, key: str) -> Upload:
        """Write an object of any size in parts."""

    def copy(self, source: str, key: str) -> None:
        """Copy an object without fetching it."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, those that are there."""

    def walk(self, prefix: str) -> Iterator[ObjectMeta]:
        """Yield all objects whose key begins so."""

    def children(self, prefix: str) -> list[str]:
        """Return what follows the prefix, up to the next slash, in the keys that begin with it."""


# --- one client for each bucket and process ---------------------------------------------------------------------------

_clients: dict[tuple[int, str, ObjectStoreSettings], ObjectClient] = {}
_lock = threading.Lock()


def client_of(location: str, settings: ObjectStoreSettings) -> ObjectClient:
    """Return the client of the bucket that a location is in. A forked process makes clients of its own."""
    bucket = bucket_of(location)
    with _lock:
        ident = (os.getpid(), bucket, settings)
        if ident not in _clients:
            _clients[ident] = ObstoreClient(_open(bucket, settings), settings)
        return _clients[ident]


def bucket_of(location: str) -> str:
    """Return the part of a location that names the bucket.

    >>> bucket_of("s3://jobs/checkpoints/ab12"), bucket_of("abfss://jobs@account.dfs.core.windows.net/ab12")
    ('s3://jobs', 'abfss://jobs@account.dfs.core.windows.net')
    """
    scheme, _, rest = location.partition("://")
    return f"{scheme.lower()}://{rest.partition('/')[0]}"


def key_of(location: str) -> str:
    """Return the key of a location in its bucket.

    >>> key_of("s3://jobs/checkpoints/ab12")
    'checkpoints/ab12'
    """
    return location.partition("://")[2].partition("/")[2].strip("/")


def _open(bucket: str, settings: ObjectStoreSettings) -> Any:
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise ConfigurationError(
            f"{bucket} is in an object store, which needs the package obstore: pip install 'flott[object-stores]'."
        ) from error
    kind = scheme_of(bucket)
    shared: dict[str, Any] = {
        "client_options": {
            "timeout": timedelta(milliseconds=settings.request_timeout_ms),
            "connect_timeout": timedelta(milliseconds=min(5000, settings.request_timeout_ms)),
            "allow_http": _allows_http(kind, settings),
        },
        "retry_config": {
            "max_retries": 1000,  # the time limit decides
            "retry_timeout": timedelta(milliseconds=settings.retry_timeout_ms),
            "backoff": {"init_backoff": _FIRST_BACKOFF, "max_backoff": _LONGEST_BACKOFF, "base": 2},
        },
    }
    try:
        if kind in ("s3", "s3a"):
            return S3Store(bucket.partition("://")[2], **_s3_options(settings), **shared)
        if kind == "gs":
            return GCSStore(bucket.partition("://")[2], **shared)
        return AzureStore.from_url(bucket, **shared)
    except Exception as error:
        raise ConfigurationError(f"{bucket} cannot be used: {settings.without_secrets(_first_line(error))}.") from None


def _allows_http(kind: str, settings: ObjectStoreSettings) -> bool:
    """Return whether requests may go unencrypted: only if the endpoint says so."""
    if kind in ("s3", "s3a"):
        return settings.allows_http
    # A server of one's own in place of Azure's or Google's is named in the environment, as credentials are.
    names = ("GOOGLE_BASE_URL",) if kind == "gs" else ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    return any(os.environ.get(name, "").lower().startswith("http://") for name in names)


def _s3_options(settings: ObjectStoreSettings) -> dict[str, Any]:
    found: dict[str, Any] = {"virtual_hosted_style_request": not settings.path_style}
    if settings.endpoint:
        found["endpoint"] = settings.endpoint
    if settings.region:
        found["region"] = settings.region
    if settings.access_key is not None and settings.secret_key is not None:
        found |= {"access_key_id": settings.access_key, "secret_access_key": settings.secret_key}
        if settings.session_token is not None:
            found["session_token"] = settings.session_token
    elif not os.environ.get("AWS_ACCESS_KEY_ID") and (provider := _boto_credentials()) is not None:
        found["credential_provider"] = provider
    return found


def _boto_credentials() -> Any | None:
    """Return the credentials of boto3's chain: profiles, SSO, roles. obstore itself knows fewer ways."""
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider

        session = boto3.Session()
        return Boto3CredentialProvider(session) if session.get_credentials() is not None else None
    except ImportError:
        return None


# --- obstore ----------------------------------------------------------------------------------------------------------


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


@dataclass(frozen=True)
class ObstoreClient:
    """The client of one bucket, by obstore. Safe to be used by several threads."""

    store: Any = field(repr=False)
    settings: ObjectStoreSettings

    def get(self, key: str) -> tuple[bytes, ObjectMeta]:
        import obstore

        try:
            found = obstore.get(self.store, key)
            return bytes(found.bytes()), _meta(found.meta)
        except Exception as error:
            raise self._translated(error) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        import obstore

        if length <= 0:
            return b""
        try:
            return bytes(obstore.get_range(self.store, key, start=start, length=length))
        except Exception as error:
            raise self._translated(error) from None

    def head(self, key: str) -> ObjectMeta | None:
        import obstore

        try:
            return _meta(obstore.head(self.store, key))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._translated(error) from None

    def put(self, key: str, data: bytes) -> str:
        return self._put(key, data, "overwrite")

    def create(self, key: str, data: bytes) -> str:
        return self._put(key, data, "create")

    def replace(self, key: str, data: bytes, etag: str) -> str:
        tag, _, version = etag.partition(_VERSION)
        return self._put(key, data, {"e_tag": tag, "version": version} if version else {"e_tag": tag})

    def _put(self, key: str, data: bytes, mode: Any) -> str:
        import obstore

        try:
            done = obstore.put(self.store, key, data, mode=mode, use_multipart=False)
            return _version(done["e_tag"], done["version"])
        except FileNotFoundError as error:
            raise (_no_bucket() if isinstance(mode, str) else self._translated(error)) from None
        except Exception as error:
            raise self._translated(error) from None

    def upload(self, key: str) -> Upload:
        import obstore

        try:
            writer = obstore.open_writer(
                self.store, key, buffer_size=PART_BYTES, max_concurrency=CONCURRENT_PARTS
            )
        except Exception as error:
            raise self._translated(error) from None
        return _ObstoreUpload(self, writer)

    def copy(self, source: str, key: str) -> None:
        import obstore

        try:
            obstore.copy(self.store, source, key)
        except Exception as error:
            raise self._translated(error) from None

    def delete(self, keys: Iterable[str]) -> None:
        import obstore

        wanted = list(keys)
        try:
            if wanted:
                obstore.delete(self.store, wanted)
        except FileNotFoundError:
            for key in wanted if len(wanted) > 1 else ():  # one that was not there must not spare the others
                self.delete([key])
        except Exception as error:
            raise self._translated(error) from None

    def walk(self, prefix: str) -> Iterator[ObjectMeta]:
        import obstore

        # The library lists by whole parts of a key, so it is asked for the folder and the rest is compared here.
        folder = prefix.rpartition("/")[0]
        try:
            for chunk in obstore.list(self.store, folder or None, chunk_size=1000):
                for found in chunk:
                    if found["path"].startswith(prefix):
                        yield _meta(found)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._translated(error) from None

    def children(self, prefix: str) -> list[str]:
        import obstore

        try:
            found = obstore.list_with_delimiter(self.store, prefix.rstrip("/") or None)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._translated(error) from None
        keys = [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]
        return sorted({key.rstrip("/").rpartition("/")[2] for key in keys})

    def _translated(self, error: Exception) -> Exception:
        """Return what an error of the library means, without secrets and without its debugging output."""
        from obstore import exceptions

        if isinstance(error, (ObjectMissing, ObjectConflict, ObjectStoreFailure, ConfigurationError)):
            return error
        reason = self.settings.without_secrets(_first_line(error))
        if isinstance(error, FileNotFoundError):
            return ObjectMissing(2, "No such object")
        if isinstance(error, (exceptions.AlreadyExistsError, exceptions.PreconditionError)):
            return ObjectConflict(reason)
        if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
            return ObjectStoreFailure(13, f"{reason} (the credentials were refused, or do not allow this)")
        return ObjectStoreFailure(5, reason)


#: Between the two halves of a version: Google Cloud Storage compares generations, the others compare ETags.
_VERSION = "\n"


def _version(etag: str | None, version: str | None) -> str:
    return f"{etag or ''}{_VERSION}{version}" if version else etag or ""


def _meta(found: Any) -> ObjectMeta:
    modified_ns = int(found["last_modified"].timestamp() * 1000) * 1_000_000
    return ObjectMeta(found["path"], found["size"], _version(found.get("e_tag"), found.get("version")), modified_ns)


def _no_bucket() -> ObjectStoreFailure:
    """Return what it means if a new object finds no place."""
    return ObjectStoreFailure(2, "the bucket or container does not exist; create it, or correct its name")


class _ObstoreUpload:
    """A multipart upload, or one put if it stays small. One that is not closed leaves no object."""

    def __init__(self, client: ObstoreClient, writer: Any):
        self._client = client
        self._writer = writer

    def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
        except FileNotFoundError:
            raise _no_bucket() from None
        except Exception as error:
            raise self._client._translated(error) from None

    def close(self) -> None:
        try:
            self._writer.close()
        except FileNotFoundError:
            raise _no_bucket() from None
        except Exception as error:
            raise self._client._translated(error) from None
