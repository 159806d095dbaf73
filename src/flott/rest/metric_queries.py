"""The query parameters of metric endpoints: which metrics, which aggregations, which parts."""

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
    """Return the metrics of one object that the query selects."""
    return metric_values(metrics, call.query["get"])


def aggregated(call: RestCall, parts: Sequence[Metrics]) -> list[AggregatedMetric]:
    """Return the aggregated metrics of several objects that the query selects."""
    asked = [text.lower() for text in call.query["agg"]]
    unknown = [text for text in asked if text not in AGGREGATIONS]
    if unknown:
        raise Refusal(400, f"Bad request: agg is any of {', '.join(AGGREGATIONS)}, found {unknown[0]!r}.")
    return aggregated_metrics(parts, call.query["get"], cast(list[Aggregation], asked))


def chosen_indexes(call: RestCall, parameter: str, count: int) -> list[int]:
    """Return the indexes below ``count`` that a parameter like ``0,2-4`` selects. Without the parameter, return all."""
    ranges = call.query[parameter]
    for text in ranges:
        if not _RANGE.fullmatch(text):
            raise Refusal(400, f"Bad request: {parameter} has numbers and ranges like 0,2-4, found {text!r}.")
    return choose(ranges, range(count))


def chosen_ids(call: RestCall, parameter: str, known: Sequence[str]) -> list[str]:
    """Return the known ids that a parameter selects, or all without it. Raise 404 for an unknown id."""
    asked = call.query[parameter]
    unknown = [ident for ident in asked if ident not in known]
    if unknown:
        raise Refusal(404, f"{parameter} names {unknown[0]!r}, which is not known.")
    return list(asked or known)
