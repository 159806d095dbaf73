"""What a Spark application is started with. No JVM."""

from __future__ import annotations

import pytest

from flott.runtime.spark.session import REQUIRED, application_settings


def test_the_users_settings_win_but_not_over_what_the_protocol_depends_on() -> None:
    given = {"spark.master": "spark://host:7077", "spark.scheduler.mode": "FIFO", "spark.speculation": "true"}
    found = application_settings(given)
    assert found["spark.scheduler.mode"] == "FIFO"
    assert found.items() >= REQUIRED.items()
    assert found["spark.master"] == "spark://host:7077"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443", "local-cluster[2,1,1024]"])
def test_executors_in_processes_of_their_own_are_not_told_that_the_driver_is_at_loopback(master: str) -> None:
    found = application_settings({"spark.master": master})
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(found)
    assert found["spark.task.maxFailures"] == "4"


def test_a_local_master_tries_a_task_again_whose_worker_was_lost() -> None:
    assert application_settings({})["spark.master"] == "local[*,4]"
    assert application_settings({"spark.master": "local[2]"})["spark.driver.host"] == "127.0.0.1"


def test_on_yarn_sockets_are_not_in_the_folder_of_the_container_whose_name_is_too_long_for_them() -> None:
    key = "spark.python.unix.domain.socket.dir"
    assert application_settings({"spark.master": "yarn"})[key] == "/tmp"
    assert application_settings({"spark.master": "yarn", key: "/run/spark"})[key] == "/run/spark"
    assert key not in application_settings({"spark.master": "local[2]"})


def test_two_local_clusters_that_start_in_the_same_second_have_working_directories_of_their_own() -> None:
    key, master = "spark.deploy.appIdPattern", {"spark.master": "local-cluster[2,1,1024]"}
    first, second = (application_settings(master)[key] % ("20260101000000", 0) for _ in range(2))
    assert first != second
    assert application_settings({**master, key: "mine-%s-%d"})[key] == "mine-%s-%d"
    assert key not in application_settings({"spark.master": "spark://host:7077"})
