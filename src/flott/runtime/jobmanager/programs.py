"""Programs that were uploaded, and running them. JobManager side; user code only ever runs in processes of its own.

    <folder>/<uuid>_<name>/<name>     an upload; its first part is the program's id

A program is told where the JobManager is, and by ``FLOTT_PROGRAM_RUN`` which run it is; what it submits carries that id
(header ``X-Flott-Program-Run``), so the run learns its job. With ``FLOTT_PLAN_FILE`` it submits nothing: the plan of
the first job it would submit is written to that file, and the program ends.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common import _settings
from flott.common.config_options import ConfigOption
from flott.common.configuration import Configuration
from flott.errors import ClusterError, StorageFullError, SubmissionError
from flott.execution import PLAN_VARIABLE
from flott.runtime.storage import is_full

LOG = logging.getLogger("flott.programs")

#: Names the run of a program that a JobManager has started, in the environment of the program.
RUN_VARIABLE = "FLOTT_PROGRAM_RUN"
#: Names the same run in the header of the request by which the program submits its job.
RUN_HEADER = "X-Flott-Program-Run"
PROPERTIES_VARIABLE = _settings.PROPERTIES

#: Runs a program as ``__main__`` of its process.
RUNNER = (sys.executable, "-m", "flott.client.program")

_SUFFIXES = (".py", ".zip", ".whl")
_MAX_NAME = 150
_PLAN_FILE = ".flott-plan.json"
_PROGRAM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_[^/\\\0]+")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
#: Of a program's output, what is kept for the message if it fails.
_OUTPUT_KEPT = 32 * 1024
#: Programs that were started and have not submitted a job yet; more are refused.
MAX_STARTING = 16

#: What a program needs to reach the JobManager that started it, beside the address.
_CONNECTION = (
    cluster_options.REST_TOKEN.key,
    cluster_options.REST_TOKEN_FILE.key,
    cluster_options.REST_TLS.key,
    cluster_options.REST_TLS_MUTUAL.key,
    cluster_options.REST_TLS_CERTIFICATE.key,
    cluster_options.REST_TLS_KEY.key,
    cluster_options.REST_TLS_CA.key,
)


@dataclass(frozen=True)
class UploadedProgram:
    """A program that can be run."""

    id: str
    name: str
    path: Path
    uploaded_ms: int

    @property
    def entry(self) -> str | None:
        """Return the default entry point; None if a module has to be named."""
        if self.path.suffix == ".py":
            return self.path.stem
        with zipfile.ZipFile(self.path) as archive:
            return "__main__" if "__main__.py" in archive.namelist() else None


@dataclass(frozen=True)
class RunRequest:
    """How a program shall be run."""

    arguments: Sequence[str] = ()
    module: str | None = None
    parallelism: int | None = None
    savepoint: str | None = None
    allow_non_restored_state: bool = False
    claim_mode: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)

    def properties(self) -> dict[str, str]:
        """Return the options as a checked configuration."""
        chosen: list[tuple[ConfigOption[Any], Any]] = [
            (options.PARALLELISM, self.parallelism),
            (options.RECOVERY_PATH, self.savepoint),
            (options.IGNORE_UNCLAIMED_STATE, self.allow_non_restored_state or None),
            (options.RECOVERY_CLAIM_MODE, self.claim_mode),
        ]
        configuration = Configuration.of(self.configuration)
        for option, value in chosen:
            if value is not None:
                configuration.set(option, value)
        options.validate(configuration)
        return configuration.to_dict()


class ProgramRun:
    """A program's process. ``job`` is done with the id of the first job it submits, or fails with what it said.

    ``plan``, if that was wanted instead, has both plans of that job: ``plan`` and ``execution-plan``, of its operators.
    """

    def __init__(self, ident: str, program: UploadedProgram):
        self.id = ident
        self.program = program
        self.job: Future[str] = Future()
        self.plan: Future[dict[str, Any]] = Future()
        self.ended = threading.Event()
        self.exit_code: int | None = None
        self.output = b""

    def watch(self, process: subprocess.Popen[bytes], output: IO[bytes], plan_file: Path) -> None:
        """Follow the process to its end. In a thread of its own."""
        while line := output.readline(8192):
            LOG.info("%s: %s", self.program.name, line.decode("utf-8", "replace").rstrip())
            self.output = (self.output + line)[-_OUTPUT_KEPT:]
        self.exit_code = process.wait()
        output.close()
        try:
            self.plan.set_result(json.loads(plan_file.read_bytes()))
        except (OSError, ValueError):
            self.plan.set_exception(ClusterError(self.account()))
        with suppress(InvalidStateError):
            self.job.set_exception(ClusterError(self.account()))
        self.ended.set()

    def account(self) -> str:
        """Return why there is no job, with the program's own output."""
        said = self.output.decode("utf-8", "replace").strip()
        ended = f"The program {self.program.name} ended with exit code {self.exit_code} and submitted no job."
        return f"{ended}\n{said}" if said else ended + " Does it call execute()?"


class ProgramStore:
    """The uploaded programs of a JobManager. Any thread; reads and writes files, so not for the event loop."""

    def __init__(self, folder: Path, configuration: Configuration):
        self._folder = folder
        self._configuration = configuration
        self._address = configuration.get(cluster_options.REST_ADDRESS)
        self._port = configuration.get(cluster_options.REST_PORT)
        self._runs: dict[str, ProgramRun] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*"):  # uploads and runs that a JobManager did not live to end
            shutil.rmtree(left, ignore_errors=True)

    def reachable_at(self, address: str, port: int) -> None:
        """Set the address at which programs find the JobManager."""
        self._address, self._port = address, port

    # ------------------------------------------------------------------------------------------------------- uploads

    def incoming(self) -> Path:
        """Return a new folder on the same file system for an upload. The caller removes it."""
        try:
            return Path(tempfile.mkdtemp(prefix=".incoming-", dir=self._folder))
        except OSError as error:
            raise self._refusal(error) from error

    def add(self, name: str, received: Path) -> UploadedProgram:
        """Keep a file under the name the client gave it; moves it."""
        name = checked_name(name)
        if not name.endswith(".py"):
            _check_archive(name, received)
        ident = f"{uuid.uuid4()}_{name}"
        prepared = self.incoming()
        try:
            os.replace(received, prepared / name)
            os.replace(prepared, self._folder / ident)
        except OSError as error:
            shutil.rmtree(prepared, ignore_errors=True)
            raise self._refusal(error) from error
        return self.get(ident)

    def _refusal(self, error: OSError) -> ClusterError:
        if is_full(error):
            return StorageFullError(
                f"There is no room for programs in {self._folder}: {error.strerror}. Nothing was kept: free space there"
                " and try again."
            )
        return ClusterError(f"Programs cannot be kept in {self._folder}: {error.strerror}.")

    def list(self) -> Sequence[UploadedProgram]:
        """Return all programs, the newest first."""
        found = [self._found(path.name) for path in self._folder.iterdir() if _PROGRAM_ID.fullmatch(path.name)]
        return sorted((program for program in found if program), key=lambda program: (-program.uploaded_ms, program.id))

    def get(self, ident: str) -> UploadedProgram:
        """Return one program; raise ``SubmissionError`` if there is none."""
        found = self._found(ident) if _PROGRAM_ID.fullmatch(ident) else None
        if found is None:
            raise SubmissionError(f"There is no program {ident!r}: upload it first (POST /jars/upload).")
        return found

    def delete(self, ident: str) -> None:
        """Forget a program. Its runs continue."""
        shutil.rmtree(self.get(ident).path.parent, ignore_errors=True)

    def _found(self, ident: str) -> UploadedProgram | None:
        name = ident.partition("_")[2]
        path = self._folder / ident / name
        try:
            return UploadedProgram(ident, name, path, int(path.stat().st_mtime * 1000)) if path.is_file() else None
        except (OSError, ValueError):  # deleted meanwhile, or a name no file can have
            return None

    # ---------------------------------------------------------------------------------------------------------- runs

    def run(self, ident: str, request: RunRequest) -> ProgramRun:
        """Start a program; its job's id comes later."""
        return self._begin(ident, request, wants_plan=False)

    def plan(self, ident: str, request: RunRequest) -> ProgramRun:
        """Start a program that only makes the plan of the first job it would submit."""
        return self._begin(ident, request, wants_plan=True)

    def _begin(self, ident: str, request: RunRequest, wants_plan: bool) -> ProgramRun:
        program = self.get(ident)
        with self._lock:
            if sum(not run.job.done() for run in self._runs.values()) >= MAX_STARTING:
                raise ClusterError(f"{MAX_STARTING} programs are starting already: try again in a while.")
            run = ProgramRun(uuid.uuid4().hex, program)
            self._runs[run.id] = run
        try:
            self._start(run, request, wants_plan)
        except BaseException:
            del self._runs[run.id]
            raise
        return run

    def submitted(self, run_id: str, job_id: str) -> None:
        """Note that a program has submitted a job."""
        run = self._runs.get(run_id)
        if run is not None:
            with suppress(InvalidStateError):  # a program may submit several
                run.job.set_result(job_id)

    def end(self, run: ProgramRun) -> None:
        """End a program's process, if it still runs."""
        if (process := self._processes.get(run.id)) is not None:
            _end_group(process)

    def close(self) -> None:
        """End all programs."""
        for process in list(self._processes.values()):
            process.terminate()

    def _start(self, run: ProgramRun, request: RunRequest, wants_plan: bool) -> None:
        """Start the process of a run, and a thread that follows it."""
        command, properties = _command(run.program, request)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")},
            RUN_VARIABLE: run.id,
            PROPERTIES_VARIABLE: json.dumps({**properties, **self.connection()}),
            "PYTHONUNBUFFERED": "1",
        }
        folder = self.incoming()  # where it runs: it must not find, or leave, anything in the JobManager's own
        if wants_plan:
            environment[PLAN_VARIABLE] = str(folder / _PLAN_FILE)
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise SubmissionError(f"The program {run.program.name} cannot be started: {error}.") from error
        self._processes[run.id] = process
        for target, arguments in ((self._follow, (run, process, folder)), (_outlive, (process,))):
            threading.Thread(target=target, args=arguments, name=f"program-{run.id}", daemon=True).start()

    def _follow(self, run: ProgramRun, process: subprocess.Popen[bytes], folder: Path) -> None:
        try:
            assert process.stdout is not None
            run.watch(process, process.stdout, folder / _PLAN_FILE)
        finally:
            self._processes.pop(run.id, None)
            self._runs.pop(run.id, None)
            shutil.rmtree(folder, ignore_errors=True)

    def connection(self) -> dict[str, str]:
        """Return the settings with which a program submits its jobs here. They hold the access token."""
        settings = self._configuration.to_dict()
        configuration = Configuration.of({key: settings[key] for key in _CONNECTION if key in settings})
        configuration.set(options.TARGET, "remote")
        configuration.set(cluster_options.REST_ADDRESS, self._address)
        configuration.set(cluster_options.REST_PORT, self._port)
        return configuration.to_dict()


def _outlive(process: subprocess.Popen[bytes]) -> None:
    """End what a program has left running, because it would keep the program's output open."""
    process.wait()
    _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def checked_name(name: str) -> str:
    """Return the file name of a program: the last part of the path that a client gave, with a suffix that runs."""
    plain = name.replace("\\", "/").rpartition("/")[2]
    if not plain.isprintable() or plain.startswith(".") or len(plain.encode("utf-8", "replace")) > _MAX_NAME:
        raise SubmissionError(f"A program has a plain file name of at most {_MAX_NAME} bytes, found {name[:200]!r}.")
    if not plain.endswith(_SUFFIXES):
        raise SubmissionError(f"A program is a .py file, a .zip or a .whl, found {plain!r}; Flott runs no Java.")
    return plain


def _check_archive(name: str, path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise SubmissionError(f"{name} is not an archive that can be read: {error}.") from error


def _command(program: UploadedProgram, request: RunRequest) -> tuple[list[str], dict[str, str]]:
    """Return the command of a program, and the properties that it needs beside the connection."""
    properties = request.properties()
    if request.module and request.module != program.entry:
        if not _MODULE.fullmatch(request.module):
            raise SubmissionError(f"The entry is the name of a module, like package.module, found {request.module!r}.")
        properties.setdefault(options.PYTHON_FILES.key, str(program.path))
        return [*RUNNER, "-m", request.module, *request.arguments], properties
    if program.entry is None:
        raise SubmissionError(f"{program.name} has no __main__.py: name the module to run (entry-class).")
    return [*RUNNER, str(program.path), *request.arguments], properties
