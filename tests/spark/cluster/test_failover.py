"""Two JobManagers with ZooKeeper and Spark: the one that leads is killed in mid-epoch, the other goes on, exactly."""

from __future__ import annotations

from pathlib import Path

from tests.spark.driver_process import marked_processes
from tests.unit.runtime.jobmanager.jobs import counting, counts, submission_of, wait_for
from tests.unit.server.standby import Standby
from tests.zookeeper_server import start_zookeeper


def test_a_leader_killed_in_mid_epoch_is_followed_by_the_standby_and_results_are_exact(tmp_path: Path):
    server = start_zookeeper(tick_ms=500)
    settings = {
        "execution.target": "spark",
        "spark.master": "local[2]",
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": server.address,
        "high-availability.zookeeper.client.session-timeout": "6s",
        "high-availability.cluster-id": tmp_path.name,
    }
    first = second = None
    try:
        first = Standby(tmp_path / "first", tmp_path / "shared", **settings)
        wait_for(first.leads, 300)
        second = Standby(tmp_path / "second", tmp_path / "shared", **settings)
        job = submission_of(counting(tmp_path / "out", records=4000, rate=250), "survivor")
        first.submit(job)
        wait_for(lambda: first.epochs(job.job_id) >= 3, 300)
        first.process.kill()
        wait_for(second.leads, 300)
        wait_for(lambda: second.status(job.job_id) == "FINISHED", 300)
        assert counts(tmp_path / "out") == dict.fromkeys(range(5), 800)
        wait_for(lambda: not marked_processes(first.mark), 300)  # its JVM, workers and the job's process went with it
    finally:
        for standby in (first, second):
            if standby is not None:
                standby.end()
        server.stop()
