"""A Flink session on this machine, JobManager and TaskManager with a slot for each job, asked what Flott's is asked.

It is the one in PyFlink's package, started by its own scripts with the memory its default configuration gives it. Runs
under the bench's interpreter; only the submission runs under PyFlink's (`flink_jobs`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench import asking, control, environments, process_tree
from bench.interview import Interview, savepoint, wait_for
from bench.runners import command
from bench.runners.flott_control import LOOK_SECONDS, SAVEPOINTS, SETTLED_EPOCHS, WATCH_SECONDS
from flott.rest.app import all_endpoints
from flott.rest.openapi import document

#: Loopback only, and where nothing else is; all else as in the configuration that comes with Flink.
CONFIGURATION = """\
jobmanager: {{rpc: {{address: 127.0.0.1, port: {rpc}}}, bind-host: 127.0.0.1, memory: {{process: {{size: 1600m}}}}}}
taskmanager: {{host: 127.0.0.1, bind-host: 127.0.0.1, numberOfTaskSlots: {slots}, memory: {{process: {{size: 1728m}}}}}}
rest: {{address: 127.0.0.1, bind-address: 127.0.0.1, port: {rest}}}
execution: {{checkpointing: {{dir: "{checkpoints}"}}}}
"""


def measure(request: command.Request) -> dict[str, object]:
    python = environments.pyflink_python()
    number = control.jobs(request.shrink)
    began = time.perf_counter()
    with _session(request, _home(python), number) as (clients, port, processes):
        session_seconds = time.perf_counter() - began
        jobs = _submit(python, port, number)
        wait_for(lambda: all(_completed(clients, job) >= SETTLED_EPOCHS for job in jobs), LOOK_SECONDS)
        starts = [clients.get(f"/jobs/{job}")["timestamps"]["RUNNING"] / 1_000 - at for job, at in jobs.items()]
        cpu = _cpu(processes, request)
        memory = {"with_jobs": process_tree.megabytes(process_tree.tree(processes[0].pid))}
        flinks = [endpoint for endpoint in control.endpoints(document(all_endpoints())) if control.is_flinks(endpoint)]
        interview = Interview(clients, flinks, request.scratch / "savepoints")
        interview.try_out()
        answers = control.summary(interview.rounds(request.repeats, control.passes(request.shrink)))
        memory["after_requests"] = process_tree.megabytes(process_tree.tree(processes[0].pid))
        memory["taskmanager"] = process_tree.megabytes(process_tree.tree(processes[1].pid))
        folder = request.scratch / "savepoints"
        savepoints = [savepoint(clients, job, folder)[2] for job in list(jobs)[:SAVEPOINTS]]
    return {
        **answers,
        "jobs": number,
        "unanswered": interview.unanswered,
        "cpu": cpu,
        "running_seconds": {"at_once": round(statistics.median(starts[1:]), 2)},
        "savepoint_milliseconds": [round(seconds * 1_000, 1) for seconds in savepoints],
        "memory_megabytes": memory,
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"99th percentile of GET requests, {number} SQL jobs (Java), {len(answers['endpoints'])} endpoints,"
        f" {answers['overall']['requests']:,} requests",
        "versions": {"flink": environments.flink_version()},
    }


def _submit(python: str, port: int, number: int) -> dict[str, float]:
    """When each job was submitted, by its id."""
    sizes = [port, number, control.RECORDS_PER_SECOND, control.EPOCH_SECONDS]
    done = subprocess.run(
        [python, "-m", "bench.runners.flink_jobs", *map(str, sizes)], stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def _completed(clients: asking.Clients, job: str) -> int:
    return int(clients.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])


def _cpu(processes: Sequence[subprocess.Popen[Any]], request: command.Request) -> dict[str, float]:
    seconds = WATCH_SECONDS if request.shrink == 1 else 0.2
    before = [process_tree.tree(process.pid) for process in processes]
    time.sleep(seconds)
    after = [process_tree.tree(process.pid) for process in processes]
    shares = [process_tree.cpu_share(*both, seconds) for both in zip(before, after, strict=True)]
    return {"jobmanager": shares[0], "all": round(sum(shares), 4)}


# --- the session -----------------------------------------------------------------------------------------------------


@contextmanager
def _session(
    request: command.Request, home: Path, slots: int
) -> Iterator[tuple[asking.Clients, int, list[subprocess.Popen[bytes]]]]:
    """Its clients, its port, and its processes: JobManager and TaskManager."""
    folder = request.scratch / "flink"
    rest = _free_port()
    (folder / "conf").mkdir(parents=True)
    (folder / "log").mkdir()
    shutil.copy(home / "conf" / "log4j-console.properties", folder / "conf")
    checkpoints = (folder / "checkpoints").as_uri()
    settings = CONFIGURATION.format(rpc=_free_port(), rest=rest, slots=slots, checkpoints=checkpoints)
    (folder / "conf" / "config.yaml").write_text(settings)
    environment = {**os.environ, "FLINK_CONF_DIR": str(folder / "conf"), "FLINK_LOG_DIR": str(folder / "log")}
    with ExitStack() as closing:
        processes = [
            closing.enter_context(_started([str(home / "bin" / script), "start-foreground"], environment))
            for script in ("jobmanager.sh", "taskmanager.sh")
        ]
        clients = asking.Clients(f"http://127.0.0.1:{rest}")
        closing.callback(clients.close)
        wait_for(lambda: _slots(clients) == slots, LOOK_SECONDS)
        yield clients, rest, processes


@contextmanager
def _started(line: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process, and whatever it starts, until it is not needed any more."""
    with subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _slots(clients: asking.Clients) -> int:
    try:
        return int(clients.get("/overview")["slots-total"])
    except (OSError, RuntimeError):
        return 0  # it is still starting


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _home(python: str) -> Path:
    return next(Path(python).parent.parent.glob("lib/python3*/site-packages/pyflink"))


if __name__ == "__main__":
    command.main("flink-session", measure)
