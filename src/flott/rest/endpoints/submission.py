"""The endpoint that Flott's own client uses to submit a job: a description, the pickled graph, and files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData, UploadFile
from typing_extensions import TypedDict

from flott.common import _cluster_options as options
from flott.rest.endpoint import Endpoint, Part, RestCall
from flott.rest.refusal import Refusal
from flott.rest.uploads import bytes_of, form_of, store
from flott.rest.waiting import carried_out
from flott.runtime.jobmanager.programs import RUN_HEADER
from flott.runtime.jobmanager.submission import JobSubmission


class JobSubmitResponse(TypedDict):
    """Flink's response, and the id as a separate field."""

    jobUrl: str
    jobid: str


async def submit(call: RestCall) -> JobSubmitResponse:
    """Store a job and start it."""
    async with form_of(call.request) as form:
        if "request" in form and "submission" not in form:
            raise Refusal(
                400,
                "This is the job graph of a Java program, as `flink run` sends it, which Flott cannot run. Submit a"
                " Python program with `flott run`, or upload it (POST /jars/upload).",
            )
        submission = _without_token(JobSubmission.of(await bytes_of(form, "submission"), await bytes_of(form, "graph")))
        parts = _files(form, submission)
        with tempfile.TemporaryDirectory(prefix="flott-submission-") as folder:
            files = {name: Path(folder) / name for name in parts}
            for name, part in parts.items():
                await store(part, files[name])
            await carried_out(lambda: call.gateway.submit(submission, files), timeout_s=300.0)
    if run := call.request.headers.get(RUN_HEADER):
        call.programs.submitted(run, submission.job_id)
    return {"jobUrl": f"/jobs/{submission.job_id}", "jobid": submission.job_id}


def _without_token(submission: JobSubmission) -> JobSubmission:
    """Return the configuration without the client's access token, which must not be stored with the job."""
    kept = {key: value for key, value in submission.configuration.items() if key != options.REST_TOKEN.key}
    return replace(submission, configuration=kept)


def _files(form: FormData, submission: JobSubmission) -> Mapping[str, UploadFile]:
    """Return the files by name. Only names in the description are accepted, so no other name is created on disk."""
    expected = {file.name for file in submission.files}
    sent: dict[str, UploadFile] = {}
    for part in form.getlist("file"):
        if not isinstance(part, UploadFile) or part.filename not in expected or part.filename in sent:
            found: Any = part.filename if isinstance(part, UploadFile) else part
            raise Refusal(400, f"A part 'file' is not one of the job's files: {str(found)[:200]!r}.")
        sent[part.filename] = part
    if missing := sorted(expected - set(sent)):
        raise Refusal(400, f"Files of the job were not sent: {', '.join(missing)[:500]}.")
    return sent


ENDPOINTS = (
    Endpoint(
        "POST",
        "/jobs",
        submit,
        JobSubmitResponse,
        "Submit a job, as Flott's client does; programs are uploaded with /jars/upload",
        "jobs",
        form=(
            Part("submission", "the description of the job, in JSON", binary=False),
            Part("graph", "the pickled graph"),
            Part("file", "a file of the job, by its name in the description", required=False, repeated=True),
        ),
        status=202,
    ),
)
