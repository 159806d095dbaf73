"""The platform of the JobManager's process. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict


@dataclass(frozen=True)
class ProcessFacts:
    """Facts about a process."""

    python: str
    machine: str
    arguments: Sequence[str]
    search_path: Sequence[str]
    metrics: Mapping[str, int | float] = field(default_factory=dict)


class RunningMachine(TypedDict):
    version: str
    arch: str
    options: list[str]


class JobManagerEnvironment(TypedDict):
    jvm: RunningMachine
    classpath: list[str]


class Profilings(TypedDict):
    profilingList: list[dict[str, str]]


def environment(facts: ProcessFacts) -> JobManagerEnvironment:
    """Return the environment. Python takes the place of Flink's JVM, the search path that of the class path."""
    return {
        "jvm": {"version": facts.python, "arch": facts.machine, "options": list(facts.arguments)},
        "classpath": list(facts.search_path),
    }


def no_profilings() -> Profilings:
    """Return an empty list of profiles."""
    return {"profilingList": []}
