"""Stands in for ``flott run --target local`` in a process of its own. A script."""

from __future__ import annotations

import os
import sys
import threading

from flott.common import _settings
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.folders import folder_of
from flott.runtime.jobmanager.running_file import RunningCluster, write_running
from tests.unit.cli.fake_jobmanager import fake_jobmanager

print(sys.argv[1:], flush=True)
mode = os.environ.get("FAKE_APPLICATION", "")
if mode:
    print("The program has a mistake in line 3.", flush=True)
    sys.exit(int(mode))
with fake_jobmanager() as manager:
    running = RunningCluster(os.getpid(), manager.url, SystemClock().now_ms())
    write_running(folder_of(_settings.load().configuration), running)
    threading.Event().wait(0.3)  # the job comes later than the JobManager
    manager.add_job()
    threading.Event().wait(30)
