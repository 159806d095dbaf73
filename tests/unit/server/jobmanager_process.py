"""How a JobManager is started in a process of its own, without Spark, and where it then is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def command(folder: Path, **settings: str) -> dict[str, Any]:
    """The arguments for ``subprocess``."""
    properties = {
        "flott.cluster.dir": str(folder),
        "execution.target": "in-process",
        "rest.port": "0",
        "flott.storage.sync": "false",
        **settings,
    }
    environment = {**os.environ, "FLOTT_PROPERTIES": json.dumps(properties)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {"args": [sys.executable, "-P", "-m", "flott.server"], "env": environment, "start_new_session": True}


def announced_url(folder: Path, process: subprocess.Popen[bytes]) -> str | None:
    """Its address, once it has said it; that it has ended instead is a failure."""
    output = folder / "out"
    assert process.poll() is None, output.read_text() if output.exists() else ""
    file = folder / "cluster.json"
    return json.loads(file.read_text())["url"] if file.exists() else None
