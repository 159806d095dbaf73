"""The parameters of metric queries: which metrics, aggregated how, over which parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from flott.rest.endpoint import Query, RestCall
from flott.rest.refusal import Refusal
from flott.rest.shapes.metrics import (
    AGGREGATIONS,
    AggregatedMetric,
    Aggregation,
    Metrics,
    MetricValue,
    aggregated_metrics,
    choose,
    metric_values,
)

NAMES = Query("get", list, meaning="names of metrics, separated by commas; without it, all names are listed")
AGGREGATION = Query("agg", list, meaning=f"any of {', '.join(AGGREGATIONS)}, separated by commas; without it, all")

_RANGE = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?")


def values(call: RestCall, metrics: Metrics) -> list[MetricValue]:
    """What a query of one thing's metrics asks for."""
    return metric_values(metrics, call.query["get"])


def aggregated(call: RestCall, parts: Sequence[Metrics]) -> list[AggregatedMetric]:
    """What a query of several things' metrics asks for."""
    asked = [text.lower() for text in call.query["agg"]]
    unknown = [text for text in asked if text not in AGGREGATIONS]
    if unknown:
        raise Refusal(400, f"Bad request: agg is any of {', '.join(AGGREGATIONS)}, found {unknown[0]!r}.")
    return aggregated_metrics(parts, call.query["get"], cast(list[Aggregation], asked))


def chosen_indexes(call: RestCall, parameter: str, count: int) -> list[int]:
    """The indexes below ``count`` that a parameter like ``0,2-4`` names; all without it."""
    ranges = call.query[parameter]
    for text in ranges:
        if not _RANGE.fullmatch(text):
            raise Refusal(400, f"Bad request: {parameter} has numbers and ranges like 0,2-4, found {text!r}.")
    return choose(ranges, range(count))


def chosen_ids(call: RestCall, parameter: str, known: Sequence[str]) -> list[str]:
    """Those of the known ids that a parameter names; all without it. 404 for one that is not known."""
    asked = call.query[parameter]
    unknown = [ident for ident in asked if ident not in known]
    if unknown:
        raise Refusal(404, f"{parameter} names {unknown[0]!r}, which is not known.")
    return list(asked or known)
