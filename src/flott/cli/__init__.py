"""The command line, ``flott``. The entry point; its commands are listed in ``commands`` and loaded when they are used.

Runs in the user's terminal and talks to a JobManager by REST. Only ``run`` with an application target and ``cluster
start`` start one.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line in ``sys.argv`` and end the process with its exit code."""
    try:
        _prepare_streams()
        from flott.cli.root import flott

        flott.main(prog_name="flott")
    except KeyboardInterrupt:  # before there is anybody to answer it
        sys.exit(130)


def _prepare_streams() -> None:
    """Have something to write to, and be able to write everything: a name may not fit a terminal's encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started this process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="replace")
