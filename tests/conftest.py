"""What all tests share: none of them reads the configuration of the machine it runs on, or writes into its home."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def pytest_configure() -> None:
    for name in [name for name in os.environ if name.startswith("FLOTT_") and not name.startswith("FLOTT_TEST_")]:
        del os.environ[name]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")  # a home each: what announces a session lies in it
    home = Path(tempfile.gettempdir()) / f"flott-tests-{os.getuid()}-{worker}"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "flott.yaml").write_text("# Empty: a flott.yaml in the working directory does not count in tests.\n")
    os.environ |= {"FLOTT_HOME": str(home), "FLOTT_CONF_DIR": str(home)}
