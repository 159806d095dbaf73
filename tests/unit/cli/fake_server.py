"""Stands in for ``flott.server``: announces itself and answers, or misbehaves as FAKE_SERVER says. A script."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from flott.common import _settings
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.folders import folder_of
from flott.runtime.jobmanager.running_file import RunningCluster, remove_running, write_running
from tests.unit.cli.fake_jobmanager import fake_jobmanager

mode = os.environ.get("FAKE_SERVER", "")
configuration = _settings.load().configuration
print("settings", json.dumps(configuration.to_dict()), flush=True)
if mode == "fails":
    sys.stderr.write("The port is taken.\n")
    sys.exit(1)
if mode == "silent":
    threading.Event().wait(30)
ended = threading.Event()
signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "deaf" else lambda *_: ended.set())
with fake_jobmanager() as manager:
    if mode == "":
        manager.answers["DELETE /cluster"] = lambda query, body: ended.set() or {}
    folder = folder_of(configuration)
    write_running(folder, RunningCluster(os.getpid(), manager.url, SystemClock().now_ms()))
    ended.wait(120)
    remove_running(folder, os.getpid())
