"""``SourceFunction`` and ``SinkFunction``: in PyFlink they wrap Java objects, of which Flott has none.

The names exist so that imports and annotations of a ported program keep working.
"""

from __future__ import annotations

from flott._absent import no_java_object
from flott.errors import ProgramError


class SourceFunction:
    """Names a Java source in PyFlink. In Flott, extend :class:`flott.datastream.connectors.base.Source` instead."""

    get_java_function = no_java_object("get_java_function")

    def __init__(self, source_func: object = None):
        _refuse_java(self, source_func, "a source", "flott.datastream.connectors.base.Source")


class SinkFunction:
    """Names a Java sink in PyFlink. In Flott, extend :class:`flott.datastream.connectors.base.Sink` instead."""

    get_java_function = no_java_object("get_java_function")

    def __init__(self, sink_func: object = None):
        _refuse_java(self, sink_func, "a sink", "flott.datastream.connectors.base.Sink")


def _refuse_java(function: object, java: object, what: str, instead: str) -> None:
    if java is not None:
        raise ProgramError(
            f"{type(function).__name__}({java!r}) names a Java class, expected {what} written in Python: "
            f"Flott runs no Java connectors. Use one of flott.datastream.connectors, or extend {instead}."
        )
