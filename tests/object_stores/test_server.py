"""Storage on a real S3-compatible server: conditional puts, leaders that compete, requests that fail and disappear."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from flott.errors import LeadershipLostError, StorageError
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage.object_client import PART_BYTES, ObjectConflict
from flott.runtime.storage.object_store import ObjectStorage
from tests.object_stores.conftest import settings_of
from tests.object_stores.proxy import proxy
from tests.s3_server import S3Server

AT_ONCE = 8
RACES = 25


def race(attempt: Callable[[int], Any]) -> list[int]:
    """Let several try at once; who succeeded. The others must have been told that there was another."""
    succeeded: list[int] = []
    failures: list[BaseException] = []
    start = threading.Barrier(AT_ONCE)

    def run(number: int) -> None:
        start.wait()
        try:
            attempt(number)
            succeeded.append(number)
        except (ObjectConflict, LeadershipLostError):
            pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    return succeeded


def test_of_those_that_create_an_object_at_once_one_succeeds(storage_at: Any, place: str) -> None:
    client, key = storage_at(place).client, place.partition("//")[2].partition("/")[2]
    for number in range(RACES):
        winner = race(lambda who, name=f"{key}/{number}": client.create(name, b"%d" % who))  # type: ignore[misc]
        assert len(winner) == 1
        assert client.get(f"{key}/{number}")[0] == b"%d" % winner[0]


def test_of_those_that_replace_a_version_at_once_one_succeeds(storage_at: Any, place: str) -> None:
    client, key = storage_at(place).client, place.partition("//")[2].partition("/")[2]
    etag = client.put(f"{key}/head", b"first")
    for number in range(RACES):
        winner = race(
            lambda who, etag=etag, number=number: client.replace(f"{key}/head", b"%d %d" % (number, who), etag)  # type: ignore[misc]
        )
        assert len(winner) == 1
        data, meta = client.get(f"{key}/head")
        assert data == b"%d %d" % (number, winner[0])
        etag = meta.etag


def test_of_leaders_that_compete_through_the_store_only_the_last_commits(storage_at: Any, place: str) -> None:
    """Each claims the job and publishes as fast as it can; whatever is complete is of the leader of that moment."""
    job = f"{place}/job"
    done: list[tuple[int, int]] = []

    def lead(token: int) -> None:
        store = CheckpointStore(storage_at(job), token)
        store.claim("job")
        while True:
            number = max(store.checkpoint_ids(), default=0) + 1
            if number > 40:
                return
            store.publish(Manifest("job", "job", number, token, 1))
            done.append((number, token))

    def attempt(who: int) -> None:
        time.sleep(who * 0.02)
        lead(who + 1)

    race(attempt)
    numbers = Counter(number for number, _ in done)
    assert set(numbers) == set(range(1, 41))
    assert max(numbers.values()) == 1, "two leaders completed the same checkpoint"
    tokens = [token for _, token in sorted(done)]
    assert tokens == sorted(tokens), "a deposed leader completed one after its successor"
    completed = CheckpointStore(storage_at(job)).completed()
    assert [(manifest.checkpoint_id, manifest.completed_at_ms) for manifest in completed] == sorted(done)


def test_large_files_are_uploaded_in_parts_and_read_by_ranges(storage_at: Any, place: str) -> None:
    storage: ObjectStorage = storage_at(place)
    block = bytes(range(256)) * 4096
    blocks = 3 * PART_BYTES // len(block) + 1
    with storage.create("large") as file:
        for _ in range(blocks):
            file.write(block)
    assert storage.size("large") == blocks * len(block)
    with storage.open("large") as file:
        file.seek(-len(block), 2)
        assert file.read() == block
        file.seek(len(block) * 5 + 17)
        assert file.read(1000) == block[17:1017]
    storage.copy("large", "copy")
    assert storage.size("copy") == blocks * len(block)
    assert list(storage.list(".")) == ["copy", "large"]
    storage.delete_all(["large", "copy", "never there"])
    assert list(storage.list(".")) == []


@pytest.mark.parametrize("seed", range(3))
def test_requests_that_are_slow_fail_and_disappear_cost_time_only(server: S3Server, place: str, seed: int) -> None:
    with proxy(server.url, seed=seed, rate=0.25) as spoiled:
        quick = {"flott__object-store__request-timeout": "2 s", "flott__object-store__retry-timeout": "30 s"}
        storage = ObjectStorage(f"{place}/job", settings_of(server.through(spoiled.url), **quick))
        store = CheckpointStore(storage)
        store.claim("job")
        for number in range(1, 31):
            store.storage.write(f"state/{number}", b"%d" % number * 1000)
            store.publish(Manifest("job", "job", number, number, 1))
            assert store.storage.read(f"state/{number}") == b"%d" % number * 1000
        assert sum(spoiled.spoiled.values()) > 10, spoiled.spoiled
    plain = CheckpointStore(ObjectStorage(f"{place}/job", settings_of(server)))
    assert plain.checkpoint_ids() == list(range(1, 31))


def test_a_store_that_is_away_is_an_error_that_says_what_to_check_and_no_secret(server: S3Server, place: str) -> None:
    with proxy(server.url) as spoiled:
        impatient = {"flott__object-store__request-timeout": "500 ms", "flott__object-store__retry-timeout": "1 s"}
        storage = ObjectStorage(place, settings_of(server.through(spoiled.url), **impatient))
        storage.write("a", b"1")
        spoiled.is_away = True
        with pytest.raises(StorageError, match=r"Cannot read s3://bucket/.*/a: .*Check the object store") as caught:
            storage.read("a")
        assert "flott-secret" not in str(caught.value)
        spoiled.is_away = False
        assert storage.read("a") == b"1"


def test_wrong_credentials_are_an_error_that_says_so(server: S3Server, place: str) -> None:
    wrong = {"s3__secret-key": "not-the-secret", "flott__object-store__retry-timeout": "1 s"}
    with pytest.raises(StorageError, match="credentials") as caught:
        ObjectStorage(place, settings_of(server, **wrong)).write("a", b"1")
    assert "not-the-secret" not in str(caught.value)
