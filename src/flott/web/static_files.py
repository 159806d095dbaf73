"""Serve the files of the web UI with a strict content security policy. JobManager side.

The files are read from the installed package when the server starts, so that a request can name nothing else. They
hold no data of the cluster and are served without a token: the log-in page is one of them. All data that the pages
show comes from the REST API, which checks the token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.responses import RedirectResponse, Response

#: The first segment of the path of all files.
PREFIX = "web/"
FIRST_PAGE = "index.html"

MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

#: Scripts, styles and requests only from this origin; nothing inline; no page may frame this one.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Cache-Control": "no-cache",  # a new version of the package changes the files: the browser asks with the ETag
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class StaticFile:
    """A file of the web UI."""

    content: bytes
    media_type: str
    etag: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return all files by their path below ``static``."""
    found: dict[str, StaticFile] = {}
    for name, place in _walk(files("flott.web") / "static", ""):
        kind = MEDIA_TYPES.get(name.rpartition(".")[2])
        if kind is not None:
            content = place.read_bytes()
            found[name] = StaticFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def static_page(path: str, known_etag: str | None = None) -> Response | None:
    """Return the response for a path without its leading slash. None: the path is not one of the web UI."""
    if path == PREFIX.rstrip("/"):
        return RedirectResponse(PREFIX, headers=HEADERS)
    if not path.startswith(PREFIX):
        return None
    file = static_files().get(path.removeprefix(PREFIX) or FIRST_PAGE)
    if file is None:
        return None
    headers = {**HEADERS, "ETag": file.etag}
    if known_etag == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for place in folder.iterdir():
        if place.is_dir():
            yield from _walk(place, f"{prefix}{place.name}/")
        else:
            yield f"{prefix}{place.name}", place
