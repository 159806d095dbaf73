"""``python -m bench.open_pages``: what open pages of the web UI cost a JobManager, as a share of one core.

A REST server over fifty jobs of ten vertices, whose views change twice a second, and whose logs grow. Twenty pages are
spread over the kinds of pages, each at a job of its own. They ask as the web UI does: for what each shows, at its pace,
with the tags of the last answers and the places in logs. The CPU time of the server's process without pages is
subtracted. Results go to ``bench/results/web.json``.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

JOBS, VERTICES, PARALLELISM = 50, 10, 2
SECONDS = 20.0
PAGES = 20
CHANGES_PER_SECOND = 2
#: The web UI pauses so long between two answers (PAUSE in main.js), and asks for series so often (live.js).
PAUSE_SECONDS = 2.5
SERIES_SECONDS = 5.0
RARELY_SECONDS = 10.0
RESULTS = Path(__file__).parent / "results" / "web.json"
#: The value of a cursor in the address of a log, until the first answer has one.
_TAIL = "tail=500"


def kinds(number: int) -> dict[str, list[tuple[str, float]]]:
    """Return what each kind of page asks for, and how often in seconds, at a job of this number."""
    from urllib.parse import quote

    from tests.unit.rest.fake_cluster import TASK_MANAGER

    job = f"/jobs/{number % JOBS:032x}"
    vertex = f"{3:032x}"
    executor = f"/taskmanagers/{quote(TASK_MANAGER, safe='')}"
    live = (f"{job}/flott/live", PAUSE_SECONDS)
    series = (f"{job}/flott/series", SERIES_SECONDS)
    metrics = "get=numRecordsInPerSecond,numRecordsOutPerSecond&agg=min,max,avg,sum"
    heap = "Status.JVM.Memory.Heap.Used,Status.JVM.Memory.Heap.Max"
    rare = 30.0  # the page of the configuration
    return {
        "overview": [("/flott/live", PAUSE_SECONDS), ("/flott/series", SERIES_SECONDS)],
        "job": [live, series],
        "vertex": [
            live,
            series,
            (f"{job}/flott/vertices/{vertex}", PAUSE_SECONDS),
            (f"{job}/vertices/{vertex}/subtasks/metrics?{metrics}", PAUSE_SECONDS),
            (f"{job}/flott/late", RARELY_SECONDS),
            (f"{job}/accumulators", RARELY_SECONDS),
        ],
        "timeline": [live, (f"{job}/flott/timeline", PAUSE_SECONDS)],
        "checkpoints": [
            live,
            (f"{job}/checkpoints", PAUSE_SECONDS),
            (f"{job}/flott/savepoints", PAUSE_SECONDS),
            (f"{job}/flott/timeline", SERIES_SECONDS),
        ],
        "logs": [("/jobmanager/logs", RARELY_SECONDS), (f"/jobmanager/log?{_TAIL}", PAUSE_SECONDS)],
        "executor": [
            (executor, SERIES_SECONDS),
            (f"{executor}/flott/subtasks", SERIES_SECONDS),
            (f"{executor}/log?{_TAIL}", PAUSE_SECONDS),
        ],
        "configuration": [
            ("/jobmanager/config", rare),
            ("/jobmanager/environment", rare),
            ("/jobmanager/thread-dump", rare),
            ("/config", rare),
            (f"/jobmanager/metrics?get={heap}", rare),
        ],
    }


def serve() -> None:
    """Serve the jobs, print the port, and change all views until the input ends."""
    from flott.common.configuration import Configuration
    from flott.rest.app import create_app
    from flott.rest.http_server import RestServer
    from flott.runtime.clock import SystemClock
    from flott.runtime.jobmanager.programs import ProgramStore
    from flott.runtime.logs.entry import LogEntry, stamp
    from tests.unit.rest.fake_cluster import TASK_MANAGER, FakeCluster
    from tests.unit.rest.test_replies_of_any_job import wide_job

    configuration, clock = Configuration.of({"rest.port": 0}), SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        cluster = FakeCluster(Path(folder), configuration)
        cluster.known = {f"{n:032x}": wide_job(f"{n:032x}", VERTICES, PARALLELISM) for n in range(JOBS)}
        server = RestServer(create_app(cluster, ProgramStore(Path(folder, "programs"), configuration)), configuration)
        print(server.start(), flush=True)
        over = threading.Event()

        def until_the_input_ends() -> None:
            sys.stdin.read()
            over.set()

        threading.Thread(target=until_the_input_ends, daemon=True).start()
        logs = [cluster.log_folder / "jobmanager.log"]
        for job_id in cluster.known:
            (cluster.log_folder / "jobs" / job_id).mkdir(parents=True)
            logs.append(cluster.log_folder / "jobs" / job_id / "job.log")
        line = LogEntry(stamp(0), "INFO", "stdout", "x" * 80, task_manager=TASK_MANAGER).encoded() + b"\n"
        for log in logs:
            log.write_bytes(line * 1000)
        while not over.wait(1 / CHANGES_PER_SECOND):
            for job_id, job in list(cluster.known.items()):
                changed = replace(job, records_per_second=job.records_per_second + 1)
                cluster.known[job_id] = changed
                cluster.histories.note(changed, clock.now_ms())
            for log in logs:
                with log.open("ab") as file:
                    file.write(line)
        server.stop()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Page:
    """An open page, which asks for its answers, pauses, and asks again."""

    def __init__(self, port: int, number: int, over: threading.Event):
        self._port, self._number, self._over = port, number, over
        by_kind = kinds(number)
        self.kind = list(by_kind)[number % len(by_kind)]
        self._asked = by_kind[self.kind]
        self.statuses: list[int] = []
        self.took: list[float] = []

    def run(self) -> None:
        """Ask until it is over."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        tags: dict[str, str] = {}
        cursors: dict[str, str] = {}
        due = dict.fromkeys((path for path, _ in self._asked), 0.0)
        self._over.wait(PAUSE_SECONDS * self._number / PAGES)
        while not self._over.is_set():
            for path, every in self._asked:
                began = time.perf_counter()
                if began < due[path]:
                    continue
                due[path] = began + every - PAUSE_SECONDS / 2
                address = path.replace(_TAIL, f"offset={cursors[path]}") if path in cursors else path
                headers = {"X-Requested-With": "flott-web"}
                headers |= {"If-None-Match": tags[path]} if path in tags else {}
                connection.request("GET", address, headers=headers)
                reply = connection.getresponse()
                reply.read()
                self.took.append(time.perf_counter() - began)
                self.statuses.append(reply.status)
                assert reply.status in (200, 304), (address, reply.status)
                if tag := reply.headers["ETag"]:
                    tags[path] = tag
                if cursor := reply.headers["X-Flott-Log-Cursor"]:
                    cursors[path] = cursor
            self._over.wait(PAUSE_SECONDS)


def share(process: subprocess.Popen[Any], port: int, pages: int) -> tuple[float, list[Page]]:
    """Return the share of a core that the server takes while so many pages are open."""
    over = threading.Event()
    opened = [Page(port, number, over) for number in range(pages)]
    threads = [threading.Thread(target=page.run) for page in opened]
    for thread in threads:
        thread.start()
    before, began = cpu_seconds(process.pid), time.monotonic()
    time.sleep(SECONDS)
    used, passed = cpu_seconds(process.pid) - before, time.monotonic() - began
    over.set()
    for thread in threads:
        thread.join()
    return used / passed, opened


def main() -> None:
    """Measure without pages, and with them."""
    command = [sys.executable, "-m", "bench.open_pages", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline())
        alone, _ = share(process, port, 0)
        together, opened = share(process, port, PAGES)
        process.stdin.close()
    took = sorted(each for page in opened for each in page.took)
    unchanged = [status for page in opened for status in page.statuses].count(304)
    spread = ", ".join(dict.fromkeys(page.kind for page in opened))
    print(f"{JOBS} jobs, {VERTICES} vertices each; {PAGES} pages ({spread})")
    print(f"asked {len(took)} times in {SECONDS:g} s, {unchanged} unchanged.")
    print(f"CPU: {alone:.1%} of a core without pages, {together:.1%} with them: {together - alone:.1%} for the pages.")
    median, p99 = (took[len(took) * percent // 100] * 1000 for percent in (50, 99))
    print(f"Time of an answer: median {median:.1f} ms, p99 {p99:.1f} ms.")
    record("open_pages", {
        "jobs": JOBS, "vertices": VERTICES, "pages": PAGES, "requests": len(took), "unchanged": unchanged,
        "core_without_pages": round(alone, 4), "core_for_pages": round(together - alone, 4),
        "answer_ms": {"median": round(median, 2), "p99": round(p99, 2)},
    })  # fmt: skip


def record(name: str, values: dict[str, Any]) -> None:
    """Keep the results of a benchmark of the web UI beside those of the others."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**known, name: values}, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
