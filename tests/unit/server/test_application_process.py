"""An application, real processes without Spark: program, JobManager and jobs end together, whoever ends them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.unit.runtime.jobmanager.jobs import visible, wait_for

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from pathlib import Path
from tests.unit.runtime.jobmanager.jobs import counting

counting(Path(sys.argv[1]), records=None, rate=300).execute("endless")
"""

APPLICATION = """
import sys
from flott import server
from flott.common import Configuration

sys.exit(server.run_application(sys.argv[1:], Configuration.of({"execution.target": "in-process"})))
"""


def test_an_application_that_is_told_to_end_cancels_its_job_and_leaves_nothing(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", APPLICATION, str(tmp_path / "program.py"), str(tmp_path / "out")]
    with open(tmp_path / "output", "wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        wait_for(lambda: process.poll() is not None or len(visible(tmp_path / "out")) > 2)
        assert process.poll() is None, (tmp_path / "output").read_text()
        started = children(process.pid)
        assert len(started) == 2, "the program and its job"
        process.terminate()
        assert process.wait(120) == 128 + 15
        wait_for(lambda: not any(Path("/proc", pid).exists() for pid in started))
        assert "was cancelled" in (tmp_path / "output").read_text()
        assert not os.listdir(tmp_path / "temporary")
    finally:
        process.kill()


def children(parent: int) -> list[str]:
    """The processes that one has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(stat.parent.name)
    return found
