"""Spells the paths a program gives: absolute local paths, and URIs of object stores. Nothing is looked up."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from flott.common._object_store_settings import SCHEMES, is_hdfs_location, is_object_location
from flott.errors import ProgramError


def absolute_path(path: str | os.PathLike[str], *, hdfs: bool = False) -> str:
    """Return an absolute path of a path or a ``file:`` URI; the URI of an object store, or of HDFS, as it is.

    >>> absolute_path("file:///data/in"), absolute_path("s3://bucket/in/")
    ('/data/in', 's3://bucket/in')
    """
    text = os.fspath(path)
    if not text:
        raise ProgramError("Found an empty path, expected a file or a directory.")
    if is_object_location(text) or (hdfs and is_hdfs_location(text)):
        return text.rstrip("/")
    scheme = urlsplit(text).scheme if "://" in text or text.startswith("file:") else ""
    if scheme == "file":
        text = unquote(urlsplit(text).path)
    elif scheme:
        raise ProgramError(
            f"{text!r} is on a {scheme!r} file system; Flott reads and writes paths that the operating system knows,"
            f" and object stores ({', '.join(f'{known}://' for known in SCHEMES)}); file source and sink"
            " also hdfs://. Mount it, or let Spark read it."
        )
    return os.path.abspath(text)
