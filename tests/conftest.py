"""What all tests share: the settings of hypothesis, a home of their own, and lines that tell how far a run has come."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.progress import Progress

# The only profile. A test neither fails nor changes because the machine is busy, so nothing in it is about time. CI
# takes the same examples in every run: what fails there is due to the change. Other runs look for new examples, and
# print how to repeat one that fails.
settings.register_profile(
    "flott",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("flott")


#: Temporary files of tests are in memory if so much is free there.
ROOM = 8 << 30


def _temporary_files_in_memory() -> None:
    """Let no test wait for a disk that is busy. Set ``TMPDIR`` to have the files there instead."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < ROOM:
        return
    folder = memory / f"flott-tests-{os.getuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


_temporary_files_in_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--progress", action="store_true", help="lines with share, time and the tests that run, instead of dots"
    )


def pytest_configure(config: pytest.Config) -> None:
    _own_home()
    if config.getoption("--progress") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "progress")


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of every garbage collection: no test can let go of them."""
    gc.collect()
    gc.freeze()


def _own_home() -> None:
    """No test reads the configuration of the machine it runs on, or writes into the user's home."""
    for name in [name for name in os.environ if name.startswith("FLOTT_") and not name.startswith("FLOTT_TEST_")]:
        del os.environ[name]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")  # a home each: what announces a session lies in it
    home = Path(tempfile.gettempdir()) / f"flott-tests-{os.getuid()}-{worker}"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "flott.yaml").write_text("# Empty: a flott.yaml in the working directory does not count in tests.\n")
    os.environ |= {"FLOTT_HOME": str(home), "FLOTT_CONF_DIR": str(home)}
