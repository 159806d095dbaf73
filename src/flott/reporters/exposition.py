"""Writes metrics as text, in Prometheus' format and in OpenMetrics. JobManager side.

    # HELP flink_jobmanager_job_numRestarts Restarts of the job.
    # TYPE flink_jobmanager_job_numRestarts gauge
    flink_jobmanager_job_numRestarts{job_id="…",job_name="orders"} 1.0

All families are gauges, whatever the metric, as those of Flink's reporter are: a counter's samples are called
``…_total`` in OpenMetrics, which is what Prometheus asks for first, and dashboards made for Flink would not find them.

Of a job that runs only the numbers change from one scrape to the next. So names and labels are put into words once, and
kept until the scrape that does not need them any more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from operator import add

from flott.reporters.metric_table import MetricRow, help_of, rows_of
from flott.runtime.jobmanager.gateway import ClusterGateway

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_:]")
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class TextFormat(Enum):
    """A format, by the content type it is sent with."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def family_name(scope: Sequence[str], metric: str) -> str:
    """Return the name of a metric in the text.

    >>> family_name(("jobmanager", "job"), "last.size")
    'flink_jobmanager_job_last_size'
    """
    return _NOT_IN_NAMES.sub("_", "_".join(("flink", *scope, metric)))


# --- which format ----------------------------------------------------------------------------------------------------


def accepted_format(accept: str | None) -> TextFormat:
    """Return the format that an ``Accept`` header prefers. OpenMetrics must be named, and is preferred to an equal.

    >>> accepted_format("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3").name
    'OPENMETRICS'
    >>> accepted_format("*/*").name
    'PROMETHEUS'
    """
    wanted = {TextFormat.PROMETHEUS: 0.0, TextFormat.OPENMETRICS: 0.0}
    for part in (accept or "").split(","):
        media_type, *found = (each.strip().lower() for each in part.split(";"))
        parameters = dict(each.partition("=")[::2] for each in found)
        named = _named(media_type, parameters.get("version", ""))
        if named is not None:
            wanted[named] = max(wanted[named], _quality(parameters.get("q", "1")))
    openmetrics = wanted[TextFormat.OPENMETRICS]
    chosen = openmetrics > 0 and openmetrics >= wanted[TextFormat.PROMETHEUS]
    return TextFormat.OPENMETRICS if chosen else TextFormat.PROMETHEUS


def _named(media_type: str, version: str) -> TextFormat | None:
    if media_type in ("text/plain", "text/*", "*/*"):
        return TextFormat.PROMETHEUS
    known = media_type == "application/openmetrics-text" and version.strip('"').partition(".")[0] in ("", "1")
    return TextFormat.OPENMETRICS if known else None


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0


# --- the text --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _Shape:
    """What rows with the same metrics share: the families that their numbers belong to."""

    scope: tuple[str, ...]
    families: tuple[str, ...]
    metrics: tuple[str, ...]  #: the first of each family, if several have the same name in the text
    whole: bool  #: whether these are all metrics of the row, in its order


@dataclass(frozen=True, eq=False, slots=True)
class _Outline:
    """A row without its numbers."""

    labels: str
    beginnings: tuple[str, ...]  #: its lines, each up to the number


class Exposition:
    """Makes the text of a scrape. ``filter_values``: labels, too, contain word characters only.

    Any thread may ask: what is kept from the last scrape is replaced as a whole.
    """

    def __init__(self, filter_values: bool = True):
        self._filter_values = filter_values
        self._outlines: dict[object, _Outline] = {}
        self._shapes: dict[object, _Shape] = {}

    def scrape(self, gateway: ClusterGateway, form: TextFormat, names: Collection[str] = ()) -> bytes:
        """Return all metrics of a JobManager, or only the families with the given names."""
        return self.text(rows_of(gateway), form, names).encode()

    def text(self, rows: Iterable[MetricRow], form: TextFormat, names: Collection[str] = ()) -> str:
        """Return rows as text, family by family."""
        families = self._families(rows, form)
        if names:
            families = {name: lines for name, lines in families.items() if name in names}
        end = ("# EOF",) if form is TextFormat.OPENMETRICS else ()
        return "\n".join((*chain.from_iterable(families.values()), *end, ""))

    def _families(self, rows: Iterable[MetricRow], form: TextFormat) -> dict[str, list[str]]:
        """Return the lines of each family."""
        columns: dict[_Shape, list[Iterable[str]]] = {}
        for shape, lines in self._lines(rows):
            columns.setdefault(shape, []).append(lines)
        families: dict[str, list[str]] = {}
        for shape, found in columns.items():
            for name, metric, column in zip(shape.families, shape.metrics, zip(*found, strict=True), strict=True):
                family = families.get(name)
                if family is None:
                    family = families[name] = _head(shape.scope, name, metric, form)
                family += column
        return families

    def _lines(self, rows: Iterable[MetricRow]) -> Iterator[tuple[_Shape, Iterable[str]]]:
        """Return the lines of each row, one for each family of its shape."""
        outlines: dict[object, _Outline] = {}
        shapes: dict[object, _Shape] = {}
        told: dict[str, list[_Shape]] = {}  #: by labels
        for row in rows:
            metrics = tuple(row.numbers)
            names, key = (row.scope, metrics), (row.scope, metrics, tuple(row.labels), tuple(row.labels.values()))
            shape = shapes[names] = shapes.get(names) or self._shapes.get(names) or _shape(row)
            outline = outlines[key] = self._outlines.get(key) or self._outline(row, shape)
            texts = _texts(row.numbers.values() if shape.whole else map(row.numbers.__getitem__, shape.metrics))
            before = told.setdefault(outline.labels, [])
            before.append(shape)
            if len(before) == 1 and None not in texts:
                yield shape, map(add, outline.beginnings, texts)
            else:
                yield _those_left(shape, outline.beginnings, texts, before[:-1])
        self._outlines, self._shapes = outlines, shapes

    def _outline(self, row: MetricRow, shape: _Shape) -> _Outline:
        labels = self._label_text(row.labels)
        return _Outline(labels, tuple(f"{name}{labels} " for name in shape.families))

    def _label_text(self, labels: Mapping[str, str]) -> str:
        found = ",".join(f'{key}="{self._value_text(value)}"' for key, value in sorted(labels.items()))
        return f"{{{found}}}" if found else ""

    def _value_text(self, value: str) -> str:
        return _NOT_IN_NAMES.sub("_", value) if self._filter_values else value.translate(_ESCAPES)


def _shape(row: MetricRow) -> _Shape:
    first: dict[str, str] = {}
    for metric in row.numbers:
        first.setdefault(family_name(row.scope, metric), metric)
    return _Shape(row.scope, tuple(first), tuple(first.values()), len(first) == len(row.numbers))


def _those_left(
    shape: _Shape, beginnings: Sequence[str], texts: Sequence[str | None], before: Iterable[_Shape]
) -> tuple[_Shape, Sequence[str]]:
    """Return the lines of a row, without numbers that have no text and without series that other rows have shown."""
    told = {family for each in before for family in each.families}
    left = [
        (family, metric, beginning + text)
        for family, metric, beginning, text in zip(shape.families, shape.metrics, beginnings, texts, strict=True)
        if text is not None and family not in told
    ]
    families, metrics, lines = zip(*left, strict=True) if left else ((), (), ())
    return _Shape(shape.scope, families, metrics, whole=False), lines


def _head(scope: tuple[str, ...], name: str, metric: str, form: TextFormat) -> list[str]:
    """Return the lines that precede a family."""
    escapes = _ESCAPES if form is TextFormat.OPENMETRICS else _HELP_ESCAPES
    return [f"# HELP {name} {help_of(scope, metric).translate(escapes)}", f"# TYPE {name} gauge"]


def _texts(values: Iterable[int | float]) -> Sequence[str | None]:
    """Return numbers as text for both formats; None for an int that no float can represent."""
    values = tuple(values)
    try:
        numbers = tuple(map(float, values))
    except OverflowError:
        return [_number_text(value) for value in values]
    # A sum is only finite if all of its parts are.
    return tuple(map(repr, numbers)) if math.isfinite(sum(numbers)) else tuple(map(_number_text, numbers))


def _number_text(value: int | float) -> str | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
