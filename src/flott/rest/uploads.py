"""Multipart forms that come in: read from the stream into temporary files, never as a whole into memory."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from flott.rest.refusal import Refusal

MAX_PARTS = 1000
#: Of a part that is no file.
MAX_FIELD = 8 * 1024 * 1024


@asynccontextmanager
async def form_of(request: Request) -> AsyncIterator[FormData]:
    """The parts of the request; their files are gone afterwards."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refusal(400, "The request has the form of a file upload: send it as multipart/form-data.")
    try:
        async with request.form(max_files=MAX_PARTS, max_fields=MAX_PARTS, max_part_size=MAX_FIELD) as form:
            yield form
    except MultiPartException as error:
        raise Refusal(400, f"The multipart form cannot be read: {error.message}") from error
    except (KeyError, UnicodeDecodeError) as error:  # no boundary; headers of a part that are no text
        raise Refusal(400, f"The multipart form cannot be read: {type(error).__name__}: {error}.") from error


async def bytes_of(form: FormData, name: str) -> bytes:
    """A part as a whole, whether it was sent as a file or as a field; 400 without it."""
    part = form.get(name)
    if part is None:
        raise Refusal(400, f"The form has no part {name!r}; it has {_names(form)}.")
    return part.encode() if isinstance(part, str) else await part.read()


async def file_of(form: FormData, name: str) -> UploadFile:
    """A part that is a file with a name; 400 without it."""
    part = form.get(name)
    if not isinstance(part, UploadFile) or not part.filename:
        raise Refusal(400, f"The form has no file in a part {name!r}; it has {_names(form)}.")
    return part


async def store(part: UploadFile, target: Path) -> None:
    """Write a part to a file, off the event loop."""

    def copy() -> None:
        part.file.seek(0)
        with target.open("xb") as file:
            shutil.copyfileobj(part.file, file)

    await asyncio.to_thread(copy)


def _names(form: FormData) -> str:
    return ", ".join(sorted({repr(name[:80]) for name in form})[:10]) or "none"
