"""The control plane's workload: which questions a session with jobs is asked, and what their answers' times come to.

A question is a GET endpoint of the OpenAPI document at an address of something that is really there: a job that runs,
its vertex, its last checkpoint. Nothing here knows whether Flott or Flink answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORKLOADS = ("control",)
#: What the issue of a control plane is measured by: so many jobs, and so long may the slowest of 100 answers take.
JOBS = 20
ASKED_MILLISECONDS = 50.0
#: What each of the jobs does: so many records come in a second, and this often there is an epoch (or a checkpoint).
RECORDS_PER_SECOND = 10
EPOCH_SECONDS = 2
#: In each pass every endpoint is asked so often, each time about another job if it is about jobs.
TIMES_A_PASS = 5
PASSES = 20

#: GET endpoints that do something: they cancel a job, or let a process read state, take stacks, run a program or
#: start the process of SQL sessions.
ORDERS = re.compile(
    r"/jars/\{jarid\}/plan|/jobs/\{jobid\}/yarn-cancel|/jobs/\{jobid\}/flott/state.*|.*/(flamegraph|stacks)"
    r"|/flott/sql/.*"
)
#: What Flink's API does not have.
_FLOTT_ONLY = re.compile(r"/flott/|^/(openapi\.json|metrics|index\.html)$|^/jobs/\{jobid\}/logs?\b")

#: Values of path parameters that belong together: a job, its vertex, its checkpoint.
Place = Mapping[str, str]
#: Asks for an address; the JSON of the answer.
Get = Callable[[str], Any]


@dataclass(frozen=True)
class Question:
    """An endpoint, and the address at which it is asked."""

    endpoint: str
    path: str


@dataclass(frozen=True)
class Answer:
    """How long it took, from the first byte sent to the last byte received."""

    endpoint: str
    milliseconds: float
    status: int


def passes(shrink: int) -> int:
    """How many a round has; fewer in a smoke test."""
    return PASSES if shrink == 1 else 1


def jobs(shrink: int) -> int:
    """How many run; fewer in a smoke test."""
    return JOBS if shrink == 1 else 3


# --- what is asked ---------------------------------------------------------------------------------------------------


def endpoints(document: Mapping[str, Any]) -> list[str]:
    """The paths of an OpenAPI document that can be asked and change nothing."""
    return [path for path, methods in document["paths"].items() if "get" in methods and not ORDERS.fullmatch(path)]


def is_flinks(endpoint: str) -> bool:
    """Whether Flink's API has it, too."""
    return not _FLOTT_ONLY.search(endpoint)


def questions(found: Sequence[str], places: Sequence[Place], own: Mapping[str, Sequence[Place]]) -> list[Question]:
    """All endpoints for which the values of all parameters are known, so many times each, at one place after another.

    ``own``: the places of endpoints that have other ones than the jobs, such as names of logs.
    """
    asked = []
    for endpoint in found:
        fitting = [place for place in own.get(endpoint, places or [{}]) if parameters(endpoint) <= place.keys()]
        for n in range(TIMES_A_PASS if fitting else 0):
            asked.append(Question(endpoint, endpoint.format_map(fitting[n * len(fitting) // TIMES_A_PASS])))
    return asked


def parameters(endpoint: str) -> set[str]:
    """The names of what must be filled in."""
    return set(re.findall(r"\{(\w+)\}", endpoint))


def manager_places(get: Get) -> list[Place]:
    """What there is to ask about a session without jobs."""
    return [{"taskmanagerid": manager["id"]} for manager in get("/taskmanagers")["taskmanagers"]]


def job_places(get: Get) -> list[Place]:
    """What there is to ask about each job that runs, as the session tells it."""
    managers = manager_places(get)
    places = []
    for job in get("/jobs/overview")["jobs"]:
        if job["state"] != "RUNNING":
            continue
        detail, checkpoints = get(f"/jobs/{job['jid']}"), get(f"/jobs/{job['jid']}/checkpoints")
        place = {
            "jobid": job["jid"],
            "vertexid": detail["vertices"][-1]["id"],
            "subtaskindex": "0",
            "attempt": "0",
            "sinkname": "0",
        }
        if application := detail.get("application-id"):
            place["applicationid"] = application
        if latest := checkpoints["latest"]["completed"]:
            place["checkpointid"] = str(latest["id"])
        places.append({**place, **(managers[0] if managers else {})})
    return places


def log_places(get: Get, places: Sequence[Place], endpoints: Sequence[str]) -> dict[str, list[Place]]:
    """The names of log files, by the endpoint that shows one."""
    found: dict[str, list[Place]] = {}
    for folder in (path.removesuffix("/{logname}") for path in endpoints if path.endswith("/{logname}")):
        fitting = [place for place in places or [{}] if parameters(folder) <= place.keys()]
        for place in fitting[:TIMES_A_PASS]:
            logs = get(folder.format_map(place)).get("logs", ())
            found.setdefault(f"{folder}/{{logname}}", []).extend({**place, "logname": log["name"]} for log in logs[:1])
    return found


# --- what it comes to ------------------------------------------------------------------------------------------------


def percentiles(answers: Iterable[Answer]) -> dict[str, float]:
    """Milliseconds which so many of 100 answers did not exceed."""
    times = sorted(answer.milliseconds for answer in answers)
    if not times:
        return {}
    found = {f"p{share}": times[math.ceil(len(times) * share / 100) - 1] for share in (50, 95, 99)}
    return {name: round(value, 2) for name, value in found.items()} | {"requests": len(times)}


def summary(rounds: Sequence[Sequence[Answer]]) -> dict[str, Any]:
    """What a runner reports: the 99th percentile of each round, and the percentiles of all, as a whole and apart."""
    answers = [answer for answered in rounds for answer in answered]
    by_endpoint: dict[str, list[Answer]] = {}
    for answer in answers:
        by_endpoint.setdefault(answer.endpoint, []).append(answer)
    return {
        "milliseconds": [percentiles(answered)["p99"] for answered in rounds],
        "overall": percentiles(answers),
        "flinks": percentiles(answer for answer in answers if is_flinks(answer.endpoint)),
        "endpoints": {endpoint: percentiles(of) for endpoint, of in sorted(by_endpoint.items())},
    }
