"""The gateway of a JobManager, in a process of its own: serves SQL sessions on a socket that the JobManager gives it.

    python -m flott.rest.gateway.mounted SOCKET LINE

The JobManager admits requests and passes them on (``flott.rest.sql_mount``). ``LINE`` is a pipe: this process writes
the job of each query that starts, and ends when the other side is closed. It also ends when it had no session for some
time. Jobs of queries end with it, jobs of INSERT statements continue.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress

from flott.common import _cluster_options as options
from flott.common import _settings
from flott.common.configuration import Configuration
from flott.rest.gateway.app import create_gateway_app, sessions_of
from flott.rest.gateway.endpoints import ENDPOINTS, LIST_SESSIONS
from flott.rest.gateway.sessions import Sessions
from flott.rest.http_server import RestServer
from flott.rest.sql_mount import ROOT
from flott.runtime.clock import SystemClock

#: The process ends after so long without a session.
IDLE_SECONDS = 300.0
#: How long the jobs of queries have to be cancelled when the JobManager is gone.
_FAREWELL_SECONDS = 3.0
_NICENESS = 5
_LOOK_SECONDS = 5.0


def serve(sessions: Sessions, line: socket.socket, look_s: float = _LOOK_SECONDS, idle_s: float = IDLE_SECONDS) -> None:
    """Expire sessions until the other side of the line is closed, or there was no session for some time."""
    idle_since = sessions.clock.monotonic()
    while True:
        news, _, _ = select.select([line], [], [], look_s)
        if news:
            return  # the JobManager writes nothing: its side is closed
        sessions.expire()
        now = sessions.clock.monotonic()
        if sessions.opened():
            idle_since = now
        elif now - idle_since >= idle_s:
            return


def main() -> None:
    """Run the process."""
    listening, line = socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
    for one in (listening, line):
        os.set_inheritable(one.fileno(), False)  # what functions of users start must not keep them open
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    telling = threading.Lock()

    def tell(job_id: str) -> None:
        with telling, suppress(OSError):
            line.sendall(f"{job_id}\n".encode("ascii"))

    sessions = sessions_of(_settings.load().configuration, SystemClock(), limit=options.SQL_MAX_SESSIONS, on_query=tell)

    def leave(number: int, frame: object) -> None:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RD)  # ``serve`` sees an end

    signal.signal(signal.SIGTERM, leave)
    # The JobManager has admitted the request, and only it can reach the socket: nothing is checked again here.
    own = Configuration()
    server = RestServer(create_gateway_app(own, sessions, (*ENDPOINTS, LIST_SESSIONS), ROOT), own, listening)
    server.start()
    serve(sessions, line)
    closing = threading.Thread(target=sessions.close_all, daemon=True)
    closing.start()
    closing.join(_FAREWELL_SECONDS)
    logging.shutdown()
    os._exit(0)  # threads of user code do not keep the process


if __name__ == "__main__":
    main()
