"""``python -m bench.open_pages``: what open pages of the web UI cost a JobManager, as a share of one core.

A REST server over fifty jobs of ten vertices, whose views change twice a second. Half of the pages show the overview,
the others one job each. Pages ask as the web UI does: for live numbers and for series, with the tags of the last
answers. The CPU time of the server's process without pages is subtracted.
"""

from __future__ import annotations

import http.client
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
#: The web UI pauses so long between two answers (PAUSE in main.js).
PAUSE_SECONDS = 2.0


def serve() -> None:
    """Serve the jobs, print the port, and change all views until the input ends."""
    from flott.common.configuration import Configuration
    from flott.rest.app import create_app
    from flott.rest.http_server import RestServer
    from flott.runtime.clock import SystemClock
    from flott.runtime.jobmanager.programs import ProgramStore
    from tests.unit.rest.fake_cluster import FakeCluster
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
        while not over.wait(1 / CHANGES_PER_SECOND):
            for job_id, job in list(cluster.known.items()):
                changed = replace(job, records_per_second=job.records_per_second + 1)
                cluster.known[job_id] = changed
                cluster.histories.note(changed, clock.now_ms())
        server.stop()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Page:
    """An open page, which asks for two answers, pauses, and asks again."""

    def __init__(self, port: int, number: int, over: threading.Event):
        self._port, self._number, self._over = port, number, over
        self.statuses: list[int] = []
        self.took: list[float] = []

    def run(self) -> None:
        """Ask until it is over."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        tags: dict[str, str] = {}
        self._over.wait(PAUSE_SECONDS * self._number / PAGES)
        place = "/flott" if self._number % 2 else f"/jobs/{self._number % JOBS:032x}/flott"
        while not self._over.is_set():
            for path in (f"{place}/live", f"{place}/series"):
                began = time.perf_counter()
                connection.request("GET", path, headers={"If-None-Match": tags.get(path, "")})
                reply = connection.getresponse()
                reply.read()
                self.took.append(time.perf_counter() - began)
                tags[path] = reply.headers["ETag"]
                self.statuses.append(reply.status)
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
    print(f"{JOBS} jobs, {VERTICES} vertices each; {PAGES} pages asked {len(took)} times, {unchanged} unchanged.")
    print(f"CPU: {alone:.1%} of a core without pages, {together:.1%} with them: {together - alone:.1%} for the pages.")
    median, p99 = (took[len(took) * percent // 100] * 1000 for percent in (50, 99))
    print(f"Time of an answer: median {median:.1f} ms, p99 {p99:.1f} ms.")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
