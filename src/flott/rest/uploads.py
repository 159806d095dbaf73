"""Multipart forms: they are streamed into temporary files and never held in memory as a whole."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from flott.rest.refusal import Refusal
from flott.runtime.storage import is_full

MAX_PARTS = 1000
#: The maximum size of a part that is not a file.
MAX_FIELD = 8 * 1024 * 1024


@asynccontextmanager
async def form_of(request: Request) -> AsyncIterator[FormData]:
    """Yield the parts of the request. Their temporary files are deleted afterwards."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refusal(400, "The request has the form of a file upload: send it as multipart/form-data.")
    try:
        async with request.form(max_files=MAX_PARTS, max_fields=MAX_PARTS, max_part_size=MAX_FIELD) as form:
            yield form
    except MultiPartException as error:
        raise Refusal(400, f"The multipart form cannot be read: {error.message}") from error
    except (KeyError, UnicodeDecodeError) as error:  # no boundary; headers of a part that are not text
        raise Refusal(400, f"The multipart form cannot be read: {type(error).__name__}: {error}.") from error
    except OSError as error:  # of files that are too large for memory
        raise _disk_full(error, tempfile.gettempdir()) from error


async def bytes_of(form: FormData, name: str) -> bytes:
    """Return the content of a part that was sent as a file or as a field. Raise 400 if it is missing."""
    part = form.get(name)
    if part is None:
        raise Refusal(400, f"The form has no part {name!r}; it has {_names(form)}.")
    return part.encode() if isinstance(part, str) else await part.read()


async def file_of(form: FormData, name: str) -> UploadFile:
    """Return a part that is a file with a name. Raise 400 if it is missing."""
    part = form.get(name)
    if not isinstance(part, UploadFile) or not part.filename:
        raise Refusal(400, f"The form has no file in a part {name!r}; it has {_names(form)}.")
    return part


async def store(part: UploadFile, target: Path) -> None:
    """Write a part to a file, outside of the event loop."""

    def copy() -> None:
        part.file.seek(0)
        with target.open("xb") as file:
            shutil.copyfileobj(part.file, file)

    try:
        await asyncio.to_thread(copy)
    except OSError as error:
        raise _disk_full(error, str(target.parent)) from error


def _disk_full(error: OSError, folder: str) -> Exception:
    """Return a refusal if the disk is full. Other errors are raised unchanged."""
    if not is_full(error):
        return error
    return Refusal(
        507,
        f"What was sent does not fit into {folder} on the JobManager's machine: {error.strerror}. Nothing of it was"
        " kept: free space there and send it again; TMPDIR names another folder for what comes in.",
    )


def _names(form: FormData) -> str:
    return ", ".join(sorted({repr(name[:80]) for name in form})[:10]) or "none"
