"""Spells the paths a program gives as absolute local paths. Nothing is looked up on the disk."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from flott.errors import ProgramError


def local_path(path: str | os.PathLike[str]) -> str:
    """An absolute path of a path or a ``file:`` URI.

    >>> local_path("file:///data/in")
    '/data/in'
    """
    text = os.fspath(path)
    if not text:
        raise ProgramError("Found an empty path, expected a file or a directory.")
    scheme = urlsplit(text).scheme if "://" in text or text.startswith("file:") else ""
    if scheme == "file":
        text = unquote(urlsplit(text).path)
    elif scheme:
        raise ProgramError(
            f"{text!r} is on a {scheme!r} file system; Flott reads and writes paths that the operating system knows."
            " Mount it, or let Spark read and write it."
        )
    return os.path.abspath(text)
