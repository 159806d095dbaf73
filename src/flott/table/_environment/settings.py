"""The settings of a session that concern tables: read from its configuration, with Flink's keys and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flott.common._durations import parse_nanos
from flott.errors import ConfigurationError
from flott.table._plan.operations import SessionSettings
from flott.table._plan.physical import PlannerSettings

TIME_ZONE = "table.local-time-zone"
MINI_BATCH = "table.exec.mini-batch.enabled"
STATE_TTL = "table.exec.state.ttl"
AGG_PHASE = "table.optimizer.agg-phase-strategy"
EARLY_FIRE = "table.exec.emit.early-fire.enabled"
EARLY_DELAY = "table.exec.emit.early-fire.delay"
LATE_FIRE = "table.exec.emit.late-fire.enabled"
LATE_DELAY = "table.exec.emit.late-fire.delay"
ALLOW_LATENESS = "table.exec.emit.allow-lateness"
MATERIALIZE = "table.exec.sink.upsert-materialize"
NOT_NULL = "table.exec.sink.not-null-enforcer"
TYPE_LENGTH = "table.exec.sink.type-length-enforcer"
NESTED_CONSTRAINTS = "table.exec.sink.nested-constraint-enforcer"
IDLE_TIMEOUT = "table.exec.source.idle-timeout"
LEGACY_CAST = "table.exec.legacy-cast-behaviour"
DML_SYNC = "table.dml-sync"
RUNTIME_MODE = "execution.runtime-mode"


def planner_settings(
    configuration: Mapping[str, str], catalog: str, database: str, *, bounded: bool = False
) -> PlannerSettings:
    """Return what of a configuration decides how a query runs."""
    ttl = _duration(configuration, STATE_TTL)
    idle = _duration(configuration, IDLE_TIMEOUT)
    early = _duration(configuration, EARLY_DELAY) if _flag(configuration, EARLY_FIRE) else None
    late = _duration(configuration, LATE_DELAY) if _flag(configuration, LATE_FIRE) else None
    return PlannerSettings(
        session=session_settings(configuration, catalog, database),
        mini_batch=_flag(configuration, MINI_BATCH),
        two_phase=configuration.get(AGG_PHASE, "AUTO").upper() != "ONE_PHASE",
        ttl_ms=ttl,
        early_fire_ms=early,
        late_fire_ms=late,
        allow_lateness_ms=_duration(configuration, ALLOW_LATENESS),
        upsert_materialize=configuration.get(MATERIALIZE, "AUTO").upper(),
        not_null_enforcer=_chosen(configuration, NOT_NULL, ("ERROR", "DROP")),
        type_length_enforcer=_chosen(configuration, TYPE_LENGTH, ("IGNORE", "TRIM_PAD", "ERROR")),
        nested_enforcer=_chosen(configuration, NESTED_CONSTRAINTS, ("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS")),
        idle_timeout_ms=idle or None,
        bounded=bounded,
        batch=is_batch(configuration),
    )


#: The beginning of the options of asynchronous scalar functions.
ASYNC_SCALAR = "table.exec.async-scalar."


def session_settings(configuration: Mapping[str, str], catalog: str, database: str) -> SessionSettings:
    """Return what expressions may know of the session."""
    return SessionSettings(
        time_zone=time_zone(configuration),
        catalog=catalog,
        database=database,
        legacy_cast=configuration.get(LEGACY_CAST, "DISABLED").upper() == "ENABLED",
        parameters=job_parameters(configuration),
    )


def time_zone(configuration: Mapping[str, str]) -> str:
    """Return the session's time zone; 'default' means UTC, because tasks run on other machines."""
    name = configuration.get(TIME_ZONE, "default")
    if name == "default":
        return "UTC"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        if not _is_offset(name):
            raise ConfigurationError(
                f"{TIME_ZONE} is the name of a time zone such as Europe/Berlin, or an offset such as GMT+08:00, found"
                f" {name!r}."
            ) from None
    return name


def _is_offset(name: str) -> bool:
    text = name.removeprefix("GMT").removeprefix("UTC")
    hours, _, minutes = text[1:].partition(":")
    return text[:1] in "+-" and hours.isdigit() and (not minutes or minutes.isdigit())


def job_parameters(configuration: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the parameters that functions in Python may ask for, and how asynchronous ones are called."""
    text = configuration.get("pipeline.global-job-parameters", "")
    pairs = [part.partition(":") for part in text.split(",") if part]
    own = tuple((key.strip().strip("'"), value.strip().strip("'")) for key, _, value in pairs)
    return own + tuple((key, configuration[key]) for key in sorted(configuration) if key.startswith(ASYNC_SCALAR))


def is_batch(configuration: Mapping[str, str]) -> bool:
    """Return whether queries run in batch mode."""
    return configuration.get(RUNTIME_MODE, "streaming").lower() == "batch"


def _flag(configuration: Mapping[str, str], key: str) -> bool:
    text = configuration.get(key, "false").lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{key} is true or false, found {text!r}.")
    return text == "true"


def _chosen(configuration: Mapping[str, str], key: str, choices: tuple[str, ...]) -> str:
    """Return the value of an option that has a few; the first is the default."""
    text = configuration.get(key, choices[0]).upper()
    if text not in choices:
        raise ConfigurationError(f"{key} is {' or '.join(choices)}, found {configuration[key]!r}.")
    return text


def _duration(configuration: Mapping[str, str], key: str) -> int:
    """Return a duration in milliseconds, 0 if it is not set."""
    text = configuration.get(key)
    if text is None:
        return 0
    try:
        return parse_nanos(text) // 1_000_000
    except ValueError as error:
        raise ConfigurationError(f"{key} is a duration such as '5 s' or '100 ms', found {text!r}.") from error
