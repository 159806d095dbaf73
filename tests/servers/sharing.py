"""One server for all test processes of a run: the first that needs it starts it, and it ends when none is left.

The server is a child of a supervisor process, which ends it as soon as no test process that uses it is alive. So
nothing is left over, however a test process ends.

    with shared("kafka", serve) as facts: ...      # serve(folder) is a context manager that yields a dict

``serve`` runs in the supervisor, so it is a function of a module. What it yields must be JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.servers.process import START_SECONDS, NoServer

Serve = Callable[[Path], AbstractContextManager[dict[str, Any]]]

_ROOT = Path(__file__).parents[2]


@contextmanager
def shared(name: str, serve: Serve) -> Iterator[dict[str, Any]]:
    """Give the facts of a server that all test processes of this run share."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone-{os.getpid()}")
    folder = Path(tempfile.gettempdir()) / f"flott-servers-{os.getuid()}" / run[:12] / name
    (folder / "users").mkdir(parents=True, exist_ok=True)
    user = folder / "users" / str(os.getpid())
    user.touch()
    try:
        yield _facts(name, folder, serve)
    finally:
        user.unlink(missing_ok=True)


def _facts(name: str, folder: Path, serve: Serve) -> dict[str, Any]:
    answer = folder / "facts.json"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            _supervise(name, folder, serve)
    facts: dict[str, Any] = json.loads(answer.read_text())
    if "no server" in facts:
        raise NoServer(facts["no server"])
    return facts


def _supervise(name: str, folder: Path, serve: Serve) -> None:
    """Start the supervisor and wait for its answer."""
    command = [sys.executable, "-m", "tests.servers.sharing", f"{serve.__module__}:{serve.__qualname__}", str(folder)]
    with open(folder / "supervisor.log", "ab") as log:
        supervisor = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + START_SECONDS
    while not (folder / "facts.json").exists():
        if supervisor.poll() is not None or time.monotonic() > deadline:
            supervisor.kill()
            raise RuntimeError(f"{name} did not start:\n{(folder / 'supervisor.log').read_text()[-3000:]}")
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _in_use(folder: Path) -> bool:
    return any(_alive(int(user.name)) for user in (folder / "users").iterdir())


def _answer(folder: Path, facts: dict[str, Any]) -> None:
    draft = folder / "facts.draft"
    draft.write_text(json.dumps(facts))
    draft.rename(folder / "facts.json")


def _run(target: str, folder: Path) -> None:
    module, _, function = target.partition(":")
    serve: Serve = getattr(import_module(module), function)
    try:
        with serve(folder) as facts:
            _answer(folder, facts)
            while _in_use(folder):
                time.sleep(0.5)
            (folder / "facts.json").unlink()
    except NoServer as error:
        _answer(folder, {"no server": str(error)})


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]))
