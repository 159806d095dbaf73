"""The floor of a REST API in Python: a bare Starlette application on uvicorn, alone on the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench import asking, control
from bench.control import Answer, Question
from bench.runners import command

QUESTIONS_A_PASS = 60 * control.TIMES_A_PASS  # about as many as a session is asked


@contextmanager
def bare_server() -> Iterator[asking.Clients]:
    """Clients of a bare server in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", "bench.bare_server"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            clients = asking.Clients(f"http://127.0.0.1:{int(process.stdout.readline())}")
            yield clients
            clients.close()
        finally:
            process.kill()


def ask(clients: asking.Clients, passes: int) -> list[Answer]:
    """The answers to as many questions as a session is asked."""
    one_pass = [Question("/constant", f"/constant/{n}") for n in range(QUESTIONS_A_PASS)]
    return [answer for _ in range(passes) for answer in clients.ask_all(one_pass)]


def measure(request: command.Request) -> dict[str, object]:
    with bare_server() as clients:
        ask(clients, 1)
        rounds = [ask(clients, control.passes(request.shrink)) for _ in range(request.repeats)]
    return {
        **control.summary(rounds),
        "detail": "99th percentile of GET requests, bare Starlette on uvicorn, idle machine",
    }


if __name__ == "__main__":
    command.main("limit", measure)
