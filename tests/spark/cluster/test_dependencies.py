"""What jobs of one session bring along reaches their drivers and workers, and no other job's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.spark.cluster.conftest import Session
from tests.spark.driver_process import ROOT
from tests.unit.runtime.dependencies.wheels import write_wheel

PROGRAM = """
import dataclasses
import version
from flott.datastream import StreamExecutionEnvironment

@dataclasses.dataclass(frozen=True)
class Record:
    number: int

def compute(number):
    from brought_wheel import THOUSAND
    return Record(number + 10 * version.VERSION + THOUSAND + int(open("data/inner/value.txt").read()))

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.set_python_requirements("requirements.txt", "packages")
env.add_python_archive("data.zip", "data")
numbers = env.from_collection([1, 2, 3]).rebalance().map(compute)
print(sorted(record.number for record in numbers.key_by(lambda record: record.number).reduce(lambda a, b: a)
                                                  .execute_and_collect("dependencies")))
"""


def test_jobs_side_by_side_with_modules_of_one_name_requirements_and_archives(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "packages").mkdir()
    write_wheel(tmp_path / "packages", "brought_wheel", "1.0", "THOUSAND = 1000\n")
    (tmp_path / "requirements.txt").write_text("brought_wheel==1.0\n")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("inner/value.txt", "20000")
    properties = {**session.settings, "execution.target": "remote", "flott.cluster.dir": str(session.folder)}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FLOTT_PROPERTIES": json.dumps(properties)}
    running = []
    for version in (1, 2):
        folder = tmp_path / f"program-{version}"
        folder.mkdir()
        (folder / "version.py").write_text(f"VERSION = {version}\n")
        (folder / "main.py").write_text(PROGRAM)
        command = [sys.executable, "-P", "-m", "flott.client.program", str(folder / "main.py")]
        running.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True))
    printed = [process.communicate(timeout=300)[0] for process in running]
    assert printed == ["[21011, 21012, 21013]\n", "[21021, 21022, 21023]\n"]
