"""Flott's JobManager with 20 small jobs: how long answers, starts and savepoints take, and what it needs for that.

The same questions, as far as they are about no job, are put to the session while it is empty. And while the jobs run, a
server that has nothing to do with them is asked, too: what it takes longer than on a quiet machine is the doing of the
jobs, whose processes have the cores, and not of the JobManager.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flott
from bench import asking, control, process_tree
from bench.interview import PATIENCE_SECONDS, Interview, savepoint, wait_for
from bench.runners import command, limit_control
from flott.client.rest_client import RestClient
from flott.common import Configuration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.discard import DiscardSink
from flott.runtime.jobmanager.processes.graph_pickle import pickle_graph
from flott.runtime.jobmanager.running_file import RunningCluster, read_running
from flott.runtime.jobmanager.submission import JobSubmission

#: How long CPU time is watched.
WATCH_SECONDS = 10.0
#: How often it is looked how far jobs are. Often enough to see it, seldom enough not to slow them down.
LOOK_SECONDS = 0.25
#: Savepoints one after the other, each of another job.
SAVEPOINTS = 5
#: A job has come to rest after so many epochs.
SETTLED_EPOCHS = 3
#: How processes of a session are told apart.
JOB_PROCESS, JVM, WORKER = "flott.runtime.jobmanager.processes.job_runner", "java", "pyspark.daemon"
#: Of each job. All else is as by default: each epoch is a checkpoint that is forced to disk.
JOB_SETTINGS = {"parallelism.default": "1", "flott.epoch.min-interval": f"{control.EPOCH_SECONDS} s"}


@dataclass
class Session:
    """A JobManager that runs, and its clients."""

    process: subprocess.Popen[bytes]
    clients: asking.Clients
    rest: RestClient
    submitted: dict[str, float] = field(default_factory=dict)  #: when, by job

    def submit(self, name: str) -> str:
        """Hand over a small job; its id."""
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.of(JOB_SETTINGS))
        source = DataGeneratorSource(lambda n: n, records_per_second=control.RECORDS_PER_SECOND)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        pairs = numbers.map(lambda n: (n % 5, 1)).uid("pairs")
        counts = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("counts")
        counts.sink_to(DiscardSink()).uid("nowhere")
        graph = env.get_stream_graph(job_name=name)
        submission = JobSubmission(uuid.uuid4().hex, name, JOB_SETTINGS, pickle_graph(graph), parallelism=1)
        parts = [
            ("submission", "submission.json", submission.description()),
            ("graph", "graph.pickle", submission.graph),
        ]
        self.submitted[submission.job_id] = time.time()
        self.rest.post_form("/jobs", parts)
        return submission.job_id

    def await_epochs(self, jobs: Sequence[str], epochs: int) -> dict[str, float]:
        """Wait until each job has completed so many; the seconds from its submission until that was seen."""
        seen: dict[str, float] = {}

        def all_seen() -> bool:
            for job in jobs:
                if job not in seen and self.completed(job) >= epochs:
                    seen[job] = time.time() - self.submitted[job]
            return len(seen) == len(jobs)

        wait_for(all_seen, LOOK_SECONDS)
        return seen

    def completed(self, job: str) -> int:
        """How many epochs a job has completed; it is an error if it has ended."""
        status = self.clients.get(f"/jobs/{job}/status")["status"]
        if status in ("FAILED", "CANCELED", "FINISHED"):
            raise RuntimeError(f"{status}: {self.clients.get(f'/jobs/{job}/exceptions')}"[:2_000])
        return int(self.clients.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def seconds_to_running(self, job: str) -> float:
        """From the submission until the job was RUNNING, by its own account."""
        return self.clients.get(f"/jobs/{job}")["timestamps"]["RUNNING"] / 1_000 - self.submitted[job]

    def processes(self) -> list[process_tree.Process]:
        """The JobManager, Spark, and the jobs."""
        return process_tree.tree(self.process.pid)

    def own_process(self) -> list[process_tree.Process]:
        """The JobManager alone."""
        return [process for process in self.processes() if process.pid == self.process.pid]


def measure(request: command.Request) -> dict[str, object]:
    began = time.perf_counter()
    with _session(request) as session:
        session_seconds = time.perf_counter() - began
        start = process_tree.megabytes(session.own_process())
        idle = _cpu(session, request)
        empty = _interview(session, request)
        empty.try_out()
        floor = empty.rounds(1, control.passes(request.shrink))
        answer = _with_jobs(session, request)
    answer["memory_megabytes"] = {"start": start, **answer["memory_megabytes"]}
    return {
        **answer,
        "empty": control.percentiles(floor[0]),
        "empty_cpu": idle,
        "session_start_seconds": round(session_seconds, 2),
        "versions": {"flott": getattr(flott, "__version__", "")},
    }


def _with_jobs(session: Session, request: command.Request) -> dict[str, Any]:
    number = control.jobs(request.shrink)
    first = session.submit("small-0")
    alone = session.await_epochs([first], 1)[first]  # nothing else runs yet: what a start takes by itself
    jobs = [first, *(session.submit(f"small-{n}") for n in range(1, number))]
    session.await_epochs(jobs, SETTLED_EPOCHS)
    starts = [session.seconds_to_running(job) for job in jobs]
    cpu = _cpu(session, request)
    memory = _memory(session, number)
    interview = _interview(session, request)
    interview.try_out()
    answers = control.summary(interview.rounds(request.repeats, control.passes(request.shrink)))
    memory["after_requests"] = process_tree.megabytes(session.own_process())
    with limit_control.bare_server() as clients:
        beside = limit_control.ask(clients, control.passes(request.shrink))
    savepoints = [savepoint(session.clients, job, request.scratch / "savepoints") for job in jobs[:SAVEPOINTS]]
    slowest = max(answers["endpoints"], key=lambda endpoint: answers["endpoints"][endpoint]["p99"])
    return {
        **answers,
        "jobs": number,
        "unanswered": interview.unanswered,
        "bare_beside": control.percentiles(beside),
        "cpu": cpu,
        "running_seconds": {"alone": round(starts[0], 2), "at_once": round(statistics.median(starts[1:]), 2)},
        "first_epoch_seconds": round(alone, 2),
        "savepoint_milliseconds": [round(seconds * 1_000, 1) for _, _, seconds in savepoints],
        "memory_megabytes": memory,
        "detail": f"99th percentile of GET requests, {number} jobs, {len(answers['endpoints'])} endpoints,"
        f" {answers['overall']['requests']:,} requests; slowest {slowest}",
    }


def _interview(session: Session, request: command.Request) -> Interview:
    endpoints = control.endpoints(session.clients.get("/openapi.json"))
    return Interview(session.clients, endpoints, request.scratch / "savepoints")


def _cpu(session: Session, request: command.Request) -> dict[str, float]:
    """Shares of one core: what the JobManager's own process takes, and all of them."""
    seconds = WATCH_SECONDS if request.shrink == 1 else 0.2
    before = session.processes()
    time.sleep(seconds)
    after = session.processes()
    own = [process for process in after if process.pid == session.process.pid]
    return {
        "jobmanager": process_tree.cpu_share(before, own, seconds),
        "all": process_tree.cpu_share(before, after, seconds),
    }


def _memory(session: Session, number: int) -> dict[str, float]:
    found = session.processes()

    def megabytes(mark: str) -> float:
        return process_tree.megabytes([process for process in found if mark in process.command])

    return {
        "with_jobs": process_tree.megabytes(session.own_process()),
        "a_job_process": round(megabytes(JOB_PROCESS) / number, 1),
        "a_job_workers": round(megabytes(WORKER) / number, 1),
        "jvm": megabytes(JVM),
    }


# --- the session -----------------------------------------------------------------------------------------------------


@contextmanager
def _session(request: command.Request) -> Iterator[Session]:
    """A JobManager in a process of its own, until its work is done; the settings of a request come last."""
    folder = request.scratch / "cluster"
    settings = {
        "rest.port": "0",
        "spark.master": f"local[{request.cores}]",
        "flott.cluster.dir": str(folder),
        **request.settings,
    }
    environment = {**os.environ, "FLOTT_PROPERTIES": json.dumps(settings)}
    output = folder / "logs" / "jobmanager.out"  # where flott cluster start has it, and REST shows it
    output.parent.mkdir(parents=True)
    with (
        output.open("wb") as printed,
        subprocess.Popen([sys.executable, "-m", "flott.server"], env=environment, stdout=printed) as process,
    ):
        try:
            session = _connected(process, folder, settings)
            yield session
            session.clients.send("DELETE", "/cluster")
            process.wait(PATIENCE_SECONDS)
            session.clients.close()
            session.rest.close()
        finally:
            process.terminate()


def _connected(process: subprocess.Popen[bytes], folder: Path, settings: Mapping[str, str]) -> Session:
    def announced() -> RunningCluster | None:
        if process.poll() is not None:
            raise RuntimeError(f"the JobManager ended with exit code {process.returncode}")
        return read_running(folder)

    url = wait_for(announced).url
    clients = asking.Clients(url)
    wait_for(lambda: clients.status("/overview") == 200)  # until it leads, it stands by
    return Session(process, clients, RestClient(Configuration.of(dict(settings))))


if __name__ == "__main__":
    command.main("flott", measure)
