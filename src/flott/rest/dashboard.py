"""Serve Flink's own dashboard from a folder, or from the Flink jar that contains its files.

The dashboard is a static page that uses only this API, so serving its files is sufficient.
"""

from __future__ import annotations

import mimetypes
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.responses import Response

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError

FIRST_PAGE = "index.html"

#: The path of the files in Flink's jar.
_IN_JAR = "web/"


@dataclass(frozen=True)
class Dashboard:
    """The files of a dashboard by their request path. No other file is ever read."""

    files: Mapping[str, Path | bytes] = field(default_factory=dict)  #: a file, or its content from the jar

    @staticmethod
    def of(configuration: Configuration) -> Dashboard:
        """Return the configured dashboard, or an empty one if none is configured."""
        place = configuration.get(options.WEB_DASHBOARD)
        return Dashboard() if place is None else read_dashboard(Path(place))

    def page(self, path: str) -> Response | None:
        """Return the file of this path (without a leading slash), or None."""
        name = path or FIRST_PAGE
        found = self.files.get(name)
        if found is None:
            return None
        content = found if isinstance(found, bytes) else found.read_bytes()
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        # The names of all other files change with their content.
        headers = {"Cache-Control": "no-cache" if name == FIRST_PAGE else "max-age=86400"}
        return Response(content, headers=headers, media_type=kind)


def read_dashboard(place: Path) -> Dashboard:
    """Read the dashboard in a folder or a jar. A jar is large, so it is opened once and only these files are kept."""
    files: dict[str, Path | bytes] = {}
    if place.is_dir():
        files = {file.relative_to(place).as_posix(): file for file in place.rglob("*") if file.is_file()}
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as jar:
            members = [name for name in jar.namelist() if name.startswith(_IN_JAR) and not name.endswith("/")]
            files = {name.removeprefix(_IN_JAR): jar.read(name) for name in members}
    if FIRST_PAGE not in files:
        raise ConfigurationError(
            f"Option {options.WEB_DASHBOARD.key}: there is no {FIRST_PAGE} in {place}. Give the folder of a dashboard,"
            f" or Flink's jar, flink-dist-….jar, which has one in {_IN_JAR}."
        )
    return Dashboard(files)
