"""Who wants to know of the jobs that this process hands to a JobManager: ``flott run`` shows how they get on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with the id and the name of each job, in the thread that handed it over.
Watcher = Callable[[str, str], None]

_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of every job that is handed over meanwhile."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def tell(job_id: str, name: str) -> None:
    """A job was handed over."""
    for watcher in tuple(_watchers):
        watcher(job_id, name)


def is_watched() -> bool:
    """Whether somebody is told."""
    return bool(_watchers)
