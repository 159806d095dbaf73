"""The command line ``flott``: its entry point.

``command_list`` lists the commands, which are imported when they are used.

It runs in the user's terminal and communicates with a JobManager by REST. Only ``run`` with an application target and
``cluster start`` start a JobManager.
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
    except KeyboardInterrupt:  # before a command handles it
        sys.exit(130)


def _prepare_streams() -> None:
    """Open missing output streams, and replace characters that a terminal's encoding cannot represent."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="replace")
