"""The command line, ``flott``. The entry point; its commands are listed in ``commands`` and loaded when they are used.

Runs in the user's terminal and talks to a JobManager by REST. Only ``run`` with an application target and ``cluster
start`` start one.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line in ``sys.argv`` and end the process with its exit code."""
    from flott.cli.root import flott

    flott.main(prog_name="flott")
