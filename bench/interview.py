"""A session that is asked everything, again and again: Flott's or Flink's alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import control
from bench.asking import Clients
from bench.control import Answer, Place

PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.02


@dataclass
class Interview:
    """What one session is asked. Checkpoints and orders are soon forgotten, so addresses are found again in between."""

    clients: Clients
    endpoints: Sequence[str]
    savepoints: Path  #: a folder for those that are made to be asked about
    unanswered: dict[str, int] = field(default_factory=dict)  #: the status of endpoints that this session does not have

    def try_out(self) -> None:
        """Ask everything, to warm up. What is refused is not asked again, and told."""
        answers = self.clients.ask_all(self._questions(self._orders()))
        self.unanswered = {answer.endpoint: answer.status for answer in answers if answer.status >= 400}
        self.endpoints = [endpoint for endpoint in self.endpoints if endpoint not in self.unanswered]

    def rounds(self, repeats: int, passes: int) -> list[list[Answer]]:
        """The answers of each round, in which every endpoint is asked ``passes * control.TIMES_A_PASS`` times."""
        return [self._round(passes) for _ in range(repeats)]

    def _round(self, passes: int) -> list[Answer]:
        orders = self._orders()
        answers = [answer for _ in range(passes) for answer in self.clients.ask_all(self._questions(orders))]
        refused = {(answer.endpoint, answer.status) for answer in answers if answer.status >= 400}
        if refused:
            raise AssertionError(f"refused while it was measured: {sorted(refused)}")
        return answers

    def _questions(self, orders: Mapping[str, Sequence[Place]]) -> list[control.Question]:
        places = control.job_places(self.clients.get) or control.manager_places(self.clients.get)
        own = {**control.log_places(self.clients.get, places, self.endpoints), **orders}
        return control.questions(self.endpoints, places, own)

    def _orders(self) -> dict[str, list[Place]]:
        """Orders that have been carried out for some job, so that it can be asked how they stand."""
        places = control.job_places(self.clients.get)
        if not places:
            return {}
        job = places[0]["jobid"]
        taken, location, _ = savepoint(self.clients, job, self.savepoints)
        copy = {"savepoint-path": location, "target-directory": (self.savepoints / f"copy-{taken}").as_uri()}
        exported = self._trigger("POST", "/flott/savepoint-export", copy)
        if exported is not None:
            state = f"/flott/savepoint-export/{exported}"
            wait_for(lambda: self.clients.get(state)["status"]["id"] == "COMPLETED")  # before the original is deleted
        disposal = self.clients.send("POST", "/savepoint-disposal", {"savepoint-path": location})["request-id"]
        found = {
            "/jobs/{jobid}/savepoints/{triggerid}": taken,
            "/jobs/{jobid}/checkpoints/{triggerid}": self._trigger("POST", f"/jobs/{job}/checkpoints", {}),
            "/jobs/{jobid}/rescaling/{triggerid}": self._trigger("PATCH", f"/jobs/{job}/rescaling?parallelism=1"),
            "/savepoint-disposal/{triggerid}": disposal,
            "/flott/savepoint-export/{triggerid}": exported,
            "/jobs/{jobid}/flott/preview/{triggerid}": self._preview(places[0]),
        }
        return {path: [{"jobid": job, "triggerid": ident}] if ident else [] for path, ident in found.items()}

    def _preview(self, place: Place) -> str | None:
        return self._trigger("POST", f"/jobs/{place['jobid']}/flott/preview", {"operator": place["vertexid"]})

    def _trigger(self, method: str, path: str, body: object = None) -> str | None:
        try:
            return str(self.clients.send(method, path, body)["request-id"])
        except RuntimeError:
            return None  # Flink has no such order


def savepoint(clients: Clients, job: str, folder: Path) -> tuple[str, str, float]:
    """Take one through REST: the id of the order, where it is, and the seconds until it was there."""
    began = time.perf_counter()
    order = {"target-directory": folder.as_uri(), "cancel-job": False}
    ident = clients.send("POST", f"/jobs/{job}/savepoints", order)["request-id"]
    path = f"/jobs/{job}/savepoints/{ident}"
    state = wait_for(lambda: found if (found := clients.get(path))["status"]["id"] == "COMPLETED" else None)
    seconds = time.perf_counter() - began
    if "location" not in state["operation"]:
        raise RuntimeError(f"no savepoint: {state['operation']}"[:500])
    return ident, state["operation"]["location"], seconds


def wait_for(check: Callable[[], object | None], poll_seconds: float = POLL_SECONDS):
    """What a check finds, once it finds something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS:g} s")
        time.sleep(poll_seconds)
    return found
