"""Runs the programs of fixtures: with which settings, and how what lies in a fixture is put into a folder to go on."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment
from tests.compatibility.programs import PROGRAMS

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"

#: The name of the file that says what a fixture is.
ABOUT = "fixture.json"
#: The archive of a generation that holds what each program writes.
EXPECTED = "expected.tar.xz"


@dataclass(frozen=True)
class Fixture:
    """A checkpoint directory or a savepoint, with what else there was at that moment: an archive.

    ``fixture.json``          the attributes of this class
    ``checkpoints/<job id>``  the job's directory
    ``savepoints/<name>``     the savepoint, if it is one
    ``out``                   what the sinks had written: parts, segments and staged files
    """

    path: Path
    program: str
    root: str  #: the folder in which the program ran: absolute names in the files begin with it
    job_id: str
    parallelism: int
    backend: str
    savepoint: str | None  #: its folder in the archive; None: a checkpoint
    native: bool  #: a savepoint that refers to files of the job's directory
    epoch: int

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name.partition('.')[0]}"

    @property
    def snapshot(self) -> str:
        """The folder of the snapshot."""
        return self.savepoint or f"checkpoints/{self.job_id}/chk-{self.epoch}"

    def write(self, folder: Path) -> None:
        """Put what lies in a folder into the archive."""
        content = {key: value for key, value in vars(self).items() if key != "path"}
        with tarfile.open(self.path, "x:xz") as archive:
            add(archive, ABOUT, json.dumps(content, indent=1))
            for file in sorted(folder.rglob("*")):
                archive.add(file, str(file.relative_to(folder)), recursive=False)

    @staticmethod
    def read(path: Path) -> Fixture:
        with tarfile.open(path) as archive:
            return Fixture(path=path, **json.loads(content_of(archive, ABOUT)))

    def plant(self, folder: Path) -> None:
        """Extract everything into a folder, as if the program had run there."""
        with tarfile.open(self.path) as archive:
            archive.extractall(folder, filter="data")
        for file in [*folder.glob("checkpoints/**/*"), *folder.glob("savepoints/**/*")]:
            if file.is_file():
                file.write_bytes(moved(file.read_bytes(), self.root, str(folder)))

    def expected(self) -> list[str]:
        """Return what the program wrote without an interruption, in the version that made the fixture."""
        with tarfile.open(self.path.parent / EXPECTED) as archive:
            return content_of(archive, self.program).splitlines()


def add(archive: tarfile.TarFile, name: str, text: str) -> None:
    """Add a text to an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(text.encode())
    archive.addfile(member, io.BytesIO(text.encode()))


def content_of(archive: tarfile.TarFile, name: str) -> str:
    """Return a text in an archive."""
    member = archive.extractfile(name)
    assert member is not None
    return member.read().decode()


def fixtures(folder: Path = FIXTURES) -> list[Fixture]:
    """Return all fixtures of all generations."""
    return [Fixture.read(path) for path in sorted(folder.glob("generation-*/*.tar.xz")) if path.name != EXPECTED]


def moved(data: bytes, former: str, present: str) -> bytes:
    """Return the content of a file with another folder in its absolute names.

    Only metadata and plans (one line with a checksum, then JSON) and pins (JSON) hold names of files.
    """
    old, new = json.dumps(former)[1:-1].encode(), json.dumps(present)[1:-1].encode()
    if old not in data:
        return data
    line, _, body = data.partition(b"\n")
    if not line.startswith(b"flott-"):
        return data.replace(old, new)
    kind, version, checksum, length = line.split(b" ")
    assert int(length) == len(body)
    assert int(checksum, 16) == zlib.crc32(body)
    body = body.replace(old, new)
    return b"%s %s %08x %d\n%s" % (kind, version, zlib.crc32(body), len(body), body)


def environment(
    program: str, folder: Path, *, parallelism: int = 2, backend: str = "hashmap", **settings: str
) -> StreamExecutionEnvironment:
    """Return a program that is ready to run in this process."""
    values: dict[str, Any] = {
        "execution.target": "in-process",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.num-retained": "3",
        "flott.progress": "off",
        "flott.storage.sync": "false",
        # Where an epoch ends does not depend on how busy the machine is.
        "flott.epoch.target-duration": "1 h",
        "io.tmp.dirs": str(folder / "local"),
        "pipeline.max-parallelism": "16",  # few key groups make small files
        "state.backend.type": backend,
        **settings,
    }
    if program == "files":
        values |= {"flott.epoch.max-records": "30", "flott.epoch.initial-records": "30"}
    configuration = Configuration()
    for key, value in values.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    PROGRAMS[program](env, str(folder))
    return env


def output(folder: Path) -> list[str]:
    """Return what a program has made visible, as sorted lines ``sink<TAB>line``."""
    found = []
    for path in sorted((folder / "out").rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            sink = path.relative_to(folder / "out").parts[0]
            found += [f"{sink}\t{line}" for line in path.read_text().splitlines()]
    return sorted(found)
