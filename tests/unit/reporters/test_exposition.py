"""The text of a scrape: checked with Prometheus' own client library, which reads it, and writes what it should be."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.registry import Collector, CollectorRegistry

from flott.reporters.exposition import Exposition, TextFormat, accepted_format, family_name
from flott.reporters.metric_table import CLUSTER, EXECUTOR, JOB, OPERATOR, MetricRow, help_of

LABELS = {
    CLUSTER: (),
    EXECUTOR: ("tm_id", "host"),
    JOB: ("job_id", "job_name"),
    OPERATOR: ("job_id", "operator_name", "subtask_index"),
}

#: Few of them, so that rows meet: by the same name, by one that becomes the same, by the same labels.
texts = st.sampled_from(["a", "a.b", "a_b", 'say "hi"', "back\\slash", "two\nlines", "größer", ""]) | st.text(
    max_size=5
)
numbers = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), -(2**63), 0])
rows = st.sampled_from(list(LABELS)).flatmap(
    lambda scope: st.builds(
        MetricRow,
        st.just(scope),
        st.fixed_dictionaries(dict.fromkeys(LABELS[scope], texts)),
        st.dictionaries(texts, numbers, max_size=4),
    )
)
scrapes = st.lists(st.lists(rows, max_size=6), min_size=1, max_size=3)
forms = st.sampled_from(TextFormat)


class Collected(Collector):
    """Rows as the client library would have them collected."""

    def __init__(self, rows: Sequence[MetricRow], filter_values: bool):
        self._rows = rows
        self._filter_values = filter_values

    def collect(self) -> list[Metric]:
        """All numbers; of two that have become the same the first."""
        families: dict[str, Metric] = {}
        seen = set()
        for row in self._rows:
            labels = {key: self._value(value) for key, value in row.labels.items()}
            for metric, number in row.numbers.items():
                name = family_name(row.scope, metric)
                if (name, frozenset(labels.items())) in seen:
                    continue
                seen.add((name, frozenset(labels.items())))
                if -1e308 < number < 1e308 or isinstance(number, float):
                    family = families.setdefault(name, Metric(name, help_of(row.scope, metric), "gauge"))
                    family.add_sample(name, labels, float(number))
        return list(families.values())

    def _value(self, value: str) -> str:
        return re.sub(r"[^a-zA-Z0-9_:]", "_", value) if self._filter_values else value


def _library_text(rows: Sequence[MetricRow], form: TextFormat, filter_values: bool) -> str:
    registry = CollectorRegistry()
    registry.register(Collected(rows, filter_values))
    if form is TextFormat.OPENMETRICS:
        # By default it replaces the colons of a name, which the format allows, in some lines and not in others.
        return openmetrics.generate_latest(registry, escaping=openmetrics.ALLOWUTF8).decode()
    return generate_latest(registry).decode()


def _read(text: str, form: TextFormat) -> dict[str, tuple[str, str, list[str]]]:
    families = read_openmetrics(text) if form is TextFormat.OPENMETRICS else read_text(text)
    return {
        family.name: (
            family.type,
            family.documentation,
            sorted(f"{sample.name} {sorted(sample.labels.items())} {sample.value!r}" for sample in family.samples),
        )
        for family in families
    }


@settings(max_examples=200)
@given(scrapes, forms, st.booleans())
def test_a_scrape_says_what_the_client_library_would_say(
    scrapes: list[list[MetricRow]], form: TextFormat, filter_values: bool
) -> None:
    exposition = Exposition(filter_values)
    for found in scrapes:  # what is kept from one is no harm to the next
        text = exposition.text(found, form)
        assert _read(text, form) == _read(_library_text(found, form, filter_values), form)
        lines = text.splitlines()
        assert (lines[-1:] == ["# EOF"]) == (form is TextFormat.OPENMETRICS)


def _job_row(job: str, numbers: dict[str, int | float]) -> MetricRow:
    return MetricRow(JOB, {"job_id": job, "job_name": "orders"}, numbers)


def test_the_text_of_both_formats() -> None:
    found = [_job_row("1", {"numRecordsIn": 2, "half.life": 0.5}), _job_row("2", {"numRecordsIn": 10**400})]
    lines = [
        "# HELP flink_jobmanager_job_numRecordsIn Records that came in.",
        "# TYPE flink_jobmanager_job_numRecordsIn gauge",
        'flink_jobmanager_job_numRecordsIn{job_id="1",job_name="orders"} 2.0',
        "# HELP flink_jobmanager_job_half_life half.life, of the program or of Spark.",
        "# TYPE flink_jobmanager_job_half_life gauge",
        'flink_jobmanager_job_half_life{job_id="1",job_name="orders"} 0.5',
    ]
    exposition = Exposition()
    assert exposition.text(found, TextFormat.PROMETHEUS).split("\n") == [*lines, ""]
    assert exposition.text(found, TextFormat.OPENMETRICS).split("\n") == [*lines, "# EOF", ""]


def test_numbers_that_are_none_are_spelled_as_the_formats_want_them() -> None:
    odd = {"nan": math.nan, "above": math.inf, "below": -math.inf, "large": 10**300, "half": 0.5}
    lines = Exposition().text([MetricRow(CLUSTER, {}, odd)], TextFormat.OPENMETRICS).splitlines()
    assert [line.split()[1] for line in lines if line[0] != "#"] == ["NaN", "+Inf", "-Inf", "1e+300", "0.5"]


def test_a_name_that_no_encoding_knows_is_no_reason_to_say_nothing() -> None:
    text = Exposition().text([_job_row("1", {"odd\ud800": 1})], TextFormat.PROMETHEUS)
    assert b"flink_jobmanager_job_odd_{" in text.encode()


def test_only_the_families_that_were_asked_for() -> None:
    found = [_job_row("1", {"a": 1, "b": 2, "c": 3})]
    names = ["flink_jobmanager_job_b", "flink_jobmanager_job_nothing"]
    text = Exposition().text(found, TextFormat.OPENMETRICS, names)
    assert list(_read(text, TextFormat.OPENMETRICS)) == ["flink_jobmanager_job_b"]
    assert Exposition().text(found, TextFormat.OPENMETRICS, names[1:]) == "# EOF\n"


def test_only_what_the_last_scrape_needed_is_kept() -> None:
    exposition = Exposition()
    for n in range(50):
        exposition.text([_job_row(str(job), {f"metric{n}": 1}) for job in range(n, n + 3)], TextFormat.PROMETHEUS)
    assert (len(exposition._outlines), len(exposition._shapes)) == (3, 1)


def test_names_and_labels_are_put_into_words_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exposition = Exposition()
    made: list[MetricRow] = []
    outline = exposition._outline
    monkeypatch.setattr(exposition, "_outline", lambda row, shape: made.append(row) or outline(row, shape))
    for n in range(5):
        found = [_job_row(str(job), {"numRestarts": n, "uptime": n * job}) for job in range(20)]
        assert f"}} {n}.0" in exposition.text(found, TextFormat.PROMETHEUS)
    assert len(made) == 20


# --- which format ----------------------------------------------------------------------------------------------------

#: What Prometheus asks for, by its version.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "PROMETHEUS"),
        ("", "PROMETHEUS"),
        ("*/*", "PROMETHEUS"),
        (PROMETHEUS_2, "OPENMETRICS"),
        (PROMETHEUS_3, "OPENMETRICS"),
        ("application/openmetrics-text", "OPENMETRICS"),
        ("Application/OpenMetrics-Text; Version=1.0.0", "OPENMETRICS"),
        ('application/openmetrics-text; version="1.0.0"', "OPENMETRICS"),
        ("application/openmetrics-text;version=0.0.1", "PROMETHEUS"),
        ("application/openmetrics-text;version=2.0.0,text/plain", "PROMETHEUS"),
        ("text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0", "OPENMETRICS"),
        ("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.8", "PROMETHEUS"),
        ("application/openmetrics-text;q=0", "PROMETHEUS"),
        ("application/openmetrics-text;q=much", "PROMETHEUS"),
        ("application/openmetrics-text;q=nan", "PROMETHEUS"),
        ("application/json", "PROMETHEUS"),
        (";;,=;q,", "PROMETHEUS"),
    ],
)
def test_the_client_chooses_the_format(accept: str | None, expected: str) -> None:
    assert accepted_format(accept).name == expected


media = st.sampled_from(
    ["text/plain", "text/plain;version=0.0.4", "application/openmetrics-text", "*/*", "text/html", ""]
    + [f"application/openmetrics-text; version={version}" for version in ("1.0.0", "0.0.1")]
)


@given(st.lists(media, max_size=4))
def test_without_preferences_the_choice_is_that_of_the_client_library(accepted: list[str]) -> None:
    header = ",".join(accepted)
    _, content_type = choose_encoder(header)
    assert accepted_format(header).value.partition(";")[0] == content_type.partition(";")[0]


@given(st.text())
def test_no_header_is_too_odd(header: str) -> None:
    assert accepted_format(header) in TextFormat
