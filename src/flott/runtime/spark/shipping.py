"""Flott for executors that do not have it: the package as an archive that Spark sends along. Driver side."""

from __future__ import annotations

import tempfile
import zipfile
from importlib import import_module
from pathlib import Path

#: Pure Python packages that tasks need besides the standard library and PySpark.
SHIPPED = ("flott", "cloudpickle")


def package_archive() -> Path:
    """A zip of the packages in SHIPPED, as installed here; works from a wheel as well as from a source tree."""
    folder = Path(tempfile.mkdtemp(prefix="flott-ship-"))
    archive = folder / "flott-runtime.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name in SHIPPED:
            source = import_module(name).__file__
            assert source is not None
            package = Path(source).parent
            for path in sorted(package.rglob("*.py")):
                target.write(path, Path(name) / path.relative_to(package))
    return archive
