"""Endpoints of uploaded programs, which Flink calls jars. They are off if web.submit.enable is false."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from flott.common import _cluster_options as options
from flott.rest.endpoint import Endpoint, Part, Query, RestCall
from flott.rest.refusal import Refusal
from flott.rest.uploads import file_of, form_of, store
from flott.rest.waiting import outcome_of
from flott.runtime.jobmanager.programs import ProgramRun, ProgramStore, RunRequest, checked_name

T = TypeVar("T")

#: The time that a program has to submit a job or to show its plan, in seconds.
RUN_TIMEOUT = 600.0
PLAN_TIMEOUT = 120.0

# ----------------------------------------------------------------------------------------------------------- messages


class ProgramEntry(TypedDict):
    name: str
    description: str | None


class ProgramFile(TypedDict):
    id: str
    name: str
    uploaded: int
    entry: list[ProgramEntry]


class ProgramList(TypedDict):
    address: str
    files: list[ProgramFile]


class UploadResponse(TypedDict):
    filename: str
    status: Literal["success"]


class RunResponse(TypedDict):
    jobid: str
    applicationId: str


class DeleteResponse(TypedDict):
    """An empty response."""


class PlanResponse(TypedDict):
    plan: dict[str, Any]


Parallelism = Annotated[int, Field(ge=1, le=32768)] | Annotated[str, Field(pattern=r"^\s*[0-9]{0,5}\s*$")]


class RunBody(TypedDict):
    """The parameters of a program run. A parameter that is null or absent is taken from the query."""

    entryClass: NotRequired[str | None]
    programArgs: NotRequired[str | None]
    programArgsList: NotRequired[list[str] | None]
    parallelism: NotRequired[Parallelism | None]
    savepointPath: NotRequired[str | None]
    allowNonRestoredState: NotRequired[bool | None]
    claimMode: NotRequired[Literal["NO_CLAIM", "CLAIM", "LEGACY"] | None]
    flinkConfiguration: NotRequired[dict[str, str] | None]


# ----------------------------------------------------------------------------------------------------------- handlers


async def listed(call: RestCall) -> ProgramList:
    """List the uploaded programs."""

    def files(programs: ProgramStore) -> list[ProgramFile]:
        return [
            {
                "id": program.id,
                "name": program.name,
                "uploaded": program.uploaded_ms,
                "entry": [{"name": entry, "description": None}] if (entry := program.entry) else [],
            }
            for program in programs.list()
        ]

    _check_enabled(call)
    return {"address": str(call.request.base_url).rstrip("/"), "files": await asyncio.to_thread(files, call.programs)}


async def upload(call: RestCall) -> UploadResponse:
    """Store a program."""
    _check_enabled(call)
    async with form_of(call.request) as form:
        part = await file_of(form, "jarfile")
        name = checked_name(part.filename or "")
        folder = await asyncio.to_thread(call.programs.incoming)
        try:
            await store(part, folder / name)
            program = await asyncio.to_thread(call.programs.add, name, folder / name)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return {"filename": f"/programs/{program.id}", "status": "success"}


async def delete(call: RestCall) -> Mapping[str, Any]:
    """Delete a program."""
    _check_enabled(call)
    await asyncio.to_thread(call.programs.delete, call.path["jarid"])
    return {}


async def run(call: RestCall) -> RunResponse:
    """Run a program until it has submitted a job."""
    _check_enabled(call)
    started = await asyncio.to_thread(call.programs.run, call.path["jarid"], run_request(call.query, call.body or {}))
    job = await _outcome(call, started, started.job, RUN_TIMEOUT)
    return {"jobid": job, "applicationId": job}


async def plan(call: RestCall) -> PlanResponse:
    """Return the plan of a program."""
    _check_enabled(call)
    started = await asyncio.to_thread(call.programs.plan, call.path["jarid"], run_request(call.query, call.body or {}))
    plans = await _outcome(call, started, started.plan, PLAN_TIMEOUT)
    return {"plan": plans["plan"]}


async def _outcome(call: RestCall, run: ProgramRun, future: Future[T], timeout_s: float) -> T:
    """Return the outcome of a program run. End a run that takes too long."""
    try:
        return await outcome_of(future, timeout_s)
    except TimeoutError:
        call.programs.end(run)
        raise Refusal(500, f"{run.program.name} reached no job within {timeout_s:g} s; it was ended.") from None


def run_request(query: Mapping[str, Any], body: Mapping[str, Any]) -> RunRequest:
    """Merge the parameters of the body and of the query. The body has priority."""

    def chosen(in_body: str, in_query: str) -> Any:
        found = body.get(in_body)
        return query.get(in_query) if found is None else found

    parallelism = chosen("parallelism", "parallelism")
    if isinstance(parallelism, str):
        parallelism = int(parallelism) if parallelism.strip() else None
    try:
        arguments = body.get("programArgsList") or query.get("programArg")
        arguments = arguments or shlex.split(chosen("programArgs", "program-args") or "")
    except ValueError as error:
        raise Refusal(400, f"The program's arguments cannot be split into words: {error}.") from error
    if any("\0" in argument for argument in arguments):
        raise Refusal(400, "An argument of a program cannot contain a NUL character.")
    return RunRequest(
        arguments=tuple(arguments),
        module=chosen("entryClass", "entry-class") or None,
        parallelism=parallelism,
        savepoint=chosen("savepointPath", "savepointPath") or None,
        allow_non_restored_state=bool(chosen("allowNonRestoredState", "allowNonRestoredState")),
        claim_mode=chosen("claimMode", "claimMode") or None,
        configuration=body.get("flinkConfiguration") or {},
    )


def _check_enabled(call: RestCall) -> None:
    if not call.gateway.configuration.get(options.WEB_SUBMIT):
        raise Refusal(403, "This JobManager takes no programs through REST: web.submit.enable is false.")


_RUN_QUERY = (
    Query("entry-class", str, None, "the module to run (-m); without it, the program itself"),
    Query("program-args", str, None, "arguments, as in a shell"),
    Query("programArg", list, (), "arguments, separated by commas"),
    Query("parallelism", int, None, "the default parallelism", minimum=1, maximum=32768),
    Query("savepointPath", str, None, "the savepoint to start from"),
    Query("allowNonRestoredState", bool, None, "whether state without an operator is dropped"),
    Query("claimMode", str, None, "who owns the savepoint", choices=("NO_CLAIM", "CLAIM", "LEGACY")),
)

ENDPOINTS = (
    Endpoint("GET", "/jars", listed, ProgramList, "The uploaded programs", "programs"),
    Endpoint(
        "POST",
        "/jars/upload",
        upload,
        UploadResponse,
        "Upload a program: a .py file, a .zip or a .whl",
        "programs",
        form=(Part("jarfile", "the program"),),
    ),
    Endpoint("DELETE", "/jars/:jarid", delete, DeleteResponse, "Delete a program", "programs"),
    Endpoint(
        "POST",
        "/jars/:jarid/run",
        run,
        RunResponse,
        "Run a program; the response has its first job",
        "programs",
        query=_RUN_QUERY,
        body=RunBody,
    ),
    Endpoint(
        "GET",
        "/jars/:jarid/plan",
        plan,
        PlanResponse,
        "The plan of a program's first job, without running it",
        "programs",
        query=_RUN_QUERY,
        orders=True,  # it runs the program
    ),
    Endpoint(
        "POST",
        "/jars/:jarid/plan",
        plan,
        PlanResponse,
        "The plan of a program's first job, without running it",
        "programs",
        query=_RUN_QUERY,
        body=RunBody,
    ),
)
