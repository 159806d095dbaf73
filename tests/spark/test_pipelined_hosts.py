"""Pipelined jobs over several hosts: channels by TCP, with TLS, with delay. Results are exact."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster.namespaces import HostNetwork, why_not
from tests.spark.cluster.standalone import StandaloneCluster
from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS
from tests.unit.runtime.pipelined.certificates import make_certificates, tls_settings

HOSTS = 2


@pytest.fixture
def hosts() -> Iterator[HostNetwork]:
    """Hosts with addresses of their own."""
    if reason := why_not():
        pytest.skip(reason)
    network = HostNetwork(HOSTS)
    yield network
    network.delete()


@pytest.mark.long
@pytest.mark.parametrize(("tls", "delay_ms"), [(False, 0), (True, 0), (False, 5)], ids=["plain", "tls", "delayed"])
def test_channels_between_hosts_run_over_tcp(
    tls: bool, delay_ms: int, hosts: HostNetwork, start_driver: StartDriver, tmp_path: Path
) -> None:
    cluster = StandaloneCluster(tmp_path / "cluster", hosts.address)
    try:
        for host in hosts.hosts:
            cluster.add_worker(host.address, host.prefix)
        if delay_ms:
            try:
                hosts.delay(delay_ms)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"this machine allows no delay of packets: {error.stderr.strip()}")
        options: dict[str, Any] = {
            "spark.master": cluster.url,
            "spark.driver.host": hosts.address,
            "spark.driver.bindAddress": hosts.address,
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "512m",
            **(tls_settings(make_certificates(tmp_path)) if tls else {}),
        }
        content = {"folder": str(tmp_path / "job"), "executors": HOSTS, "seconds": 6, "options": options}
        ended = start_driver(SCRIPTS / "pipelined_hosts.py", json.dumps(content), folder=tmp_path).wait(300)
        found = json.loads(ended.expect_success().stdout.splitlines()[-1])
    finally:
        cluster.stop()
    print(found)
    assert found["restarts"] == []
    assert found["far"] > 1000, "records go from one host to the other"
    assert found["p50"] >= delay_ms, "they take the network, which delays them, and not a socket in the file system"
