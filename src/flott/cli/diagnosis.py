"""The checks of ``flott doctor``. Each check is a function that returns findings with suggested fixes."""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path

from flott.cli.local_cluster import LocalCluster
from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common import _settings
from flott.common._sizes import size_text
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, FlottError
from flott.runtime.clock import Clock
from flott.runtime.jobmanager.folders import folder_of

_GIGABYTE = 1 << 30
_FEW_FILES = 4096
_SLOW_SYNC_MS = 50.0
_CLOCK_SKEW_MS = 2000


class Verdict(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"  #: works, but may stop working
    WRONG = "wrong"  #: does not work


@dataclass(frozen=True)
class Diagnosis:
    """One line of the report."""

    check: str
    verdict: Verdict
    found: str
    fix: str = ""


def _ok(check: str, found: str) -> Diagnosis:
    return Diagnosis(check, Verdict.OK, found)


def _warn(check: str, found: str, fix: str) -> Diagnosis:
    return Diagnosis(check, Verdict.WARN, found, fix)


def _wrong(check: str, found: str, fix: str) -> Diagnosis:
    return Diagnosis(check, Verdict.WRONG, found, fix)


# ------------------------------------------------------------------------------------------------------ Python and Java


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Diagnosis:
    """Check the interpreter."""
    found = f"{'.'.join(map(str, version[:3]))} ({sys.executable})"
    if version < (3, 11):
        return _wrong("python", found, "Use Python 3.11 or later.")
    return _ok("python", found)


@dataclass(frozen=True)
class Extra:
    """The packages of ``pip install 'flott[name]'``."""

    name: str
    packages: tuple[str, ...]
    purpose: str


_CORE = ("pyspark", "click", "cloudpickle", "httpx", "pyyaml", "rich")
_EXTRAS = (
    Extra("cluster", ("starlette", "uvicorn", "pydantic", "python-multipart"), "a JobManager"),
    Extra("rocksdb", ("rocksdict",), "state.backend.type: rocksdb"),
    Extra("zookeeper", ("kazoo",), "high-availability.type: zookeeper"),
    Extra("opentelemetry", ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"), "OpenTelemetry"),
    Extra("parquet", ("pyarrow",), "Parquet and Arrow"),
)


_NAME, _EXTRA = re.compile(r"[\w.-]+"), re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_NO_CONNECTORS = {extra.name for extra in _EXTRAS} | {"arrow", "columnar", "dev", "dev-connectors", "object-stores"}


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def packages(
    configuration: Configuration, version_of: Callable[[str], str | None] = installed_version
) -> Iterator[Diagnosis]:
    """Check required and optional packages."""
    found = {name: version_of(name) for name in _CORE}
    if missing := [name for name, version in found.items() if version is None]:
        yield _wrong("packages", f"{', '.join(missing)} missing", f"pip install {' '.join(missing)}")
    else:
        yield _ok("packages", ", ".join(f"{name} {version}" for name, version in found.items()))
    spark = found["pyspark"]
    if spark is not None and not re.match(r"4\.([3-9]|\d\d)", spark):
        yield _wrong("pyspark", spark, "pip install 'pyspark>=4.3,<5'")
    for extra in _EXTRAS:
        yield _extra(extra, {name: version_of(name) for name in extra.packages}, _needed(extra.name, configuration))
    yield _connectors(requirements(), version_of)


def requirements() -> list[str]:
    """Return what the installed package requires, with and without extras, as its metadata says."""
    try:
        return metadata.requires("flott") or []
    except metadata.PackageNotFoundError:
        return []


def _connectors(required: list[str], version_of: Callable[[str], str | None]) -> Diagnosis:
    """Tell which connectors and formats can be used."""
    packages: dict[str, list[str]] = {}
    for requirement in required:
        name, extra = _NAME.match(requirement), _EXTRA.search(requirement)
        if name and extra and extra[1] not in _NO_CONNECTORS:
            packages.setdefault(extra[1], []).append(name[0])
    there = sorted(extra for extra, names in packages.items() if all(version_of(name) for name in names))
    other = sorted(packages.keys() - set(there))
    more = f"; more with pip install 'flott[NAME]': {', '.join(other)}" if other else ""
    return _ok("connectors", f"{', '.join(there) or 'those that need no package'}{more}")


def _extra(extra: Extra, found: dict[str, str | None], needed: bool) -> Diagnosis:
    check = f"extra {extra.name}"
    missing = [name for name, version in found.items() if version is None]
    fix = f"pip install 'flott[{extra.name}]'"
    if not missing:
        return _ok(check, ", ".join(f"{name} {version}" for name, version in found.items()))
    if needed:
        return _wrong(check, f"{', '.join(missing)} missing, and the configuration needs {extra.purpose}", fix)
    if extra.name == "cluster":
        return _warn(check, f"{', '.join(missing)} missing: `flott cluster start` and `flott run` need it", fix)
    return _ok(check, f"not installed; for {extra.purpose}: {fix}")


def _needed(extra: str, configuration: Configuration) -> bool:
    match extra:
        case "rocksdb":
            return options.read(configuration, options.STATE_BACKEND) == "rocksdb"
        case "zookeeper":
            return configuration.get_string("high-availability.type", "none").lower() == "zookeeper"
    return False


def java(environment: dict[str, str] | None = None) -> Diagnosis:
    """Check the Java that Spark would start."""
    variables = dict(os.environ) if environment is None else environment
    home = variables.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java", path=variables.get("PATH")) or ""
    fix = "Install a JDK of version 17, or 21 and later, and set JAVA_HOME to its folder."
    if not command:
        return _wrong("java", "none: JAVA_HOME is not set, and there is no java on the PATH", fix)
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, env=variables)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _wrong("java", f"{command} cannot be started: {error}", fix)
    text = done.stderr + done.stdout
    number = re.search(r'version "(?:1\.)?(\d+)[^"]*"', text)
    if number is None:
        return _wrong("java", f"{command} prints {text.strip()[:100]!r}", fix)
    found = f"{number[0].removeprefix('version ').strip(chr(34))} ({command})"
    if int(number[1]) != 17 and int(number[1]) < 21:
        return _wrong("java", found, fix)
    return _ok("java", found)


_TINY_PROGRAM = """
from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.of({"execution.target": "spark", "spark.master": "local[1]", "flott.progress": "off"}))
env.set_parallelism(1)
assert list(env.from_collection([1, 2, 3]).map(lambda x: x + 1).execute_and_collect()) == [2, 3, 4]
"""


def spark(clock: Clock, program: str = _TINY_PROGRAM) -> Diagnosis:
    """Run a small job on Spark in a separate process."""
    began = clock.monotonic()
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return _wrong("spark", "a small job did not end within 180 s", "Look for a Spark that hangs: is the disk full?")
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        return _wrong("spark", f"a small job failed:\n{last}", "See above; the line about Java shows which is used.")
    return _ok("spark", f"a small job took {clock.monotonic() - began:.1f} s")


# ---------------------------------------------------------------------------------------------------------- the machine


def folders(configuration: Configuration, clock: Clock) -> Iterator[Diagnosis]:
    """Check the folders that a cluster and its jobs write to."""
    places = {"cluster folder": str(folder_of(configuration))}
    if checkpoints := options.read(configuration, options.CHECKPOINT_DIR):
        places["checkpoints"] = checkpoints
    if local := options.read(configuration, options.LOCAL_DIR):
        places["rocksdb folder"] = local.split(",")[0]
    for check, place in places.items():
        if "://" in place and not place.startswith("file://"):
            yield _warn(check, f"{place} is not a folder of this machine", "It is not looked at: check it by hand.")
        else:
            yield folder(check, Path(place.removeprefix("file://")), clock)


def folder(check: str, path: Path, clock: Clock) -> Diagnosis:
    """Check whether a folder is writable, its free space, the time of a durable write, and its clock."""
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".flott-doctor-", dir=there) as scratch:
            took_ms, skew_ms = _write_durably(Path(scratch, "probe"), clock)
    except OSError as error:
        fix = f"chown or chmod {there}, or configure another folder."
        return _wrong(check, f"{there} cannot be written: {error}", fix)
    free = shutil.disk_usage(there).free
    found = f"{path}: {size_text(free)} free, a durable write takes {took_ms:.1f} ms"
    if free < _GIGABYTE // 10:
        return _wrong(check, found, "Free some space: checkpoints will fail.")
    if abs(skew_ms) > _CLOCK_SKEW_MS:
        return _warn(check, f"{found}; its clock differs by {skew_ms / 1000:.0f} s", "Set the clocks by NTP.")
    if free < _GIGABYTE:
        return _warn(check, found, "Free some space, or configure another folder.")
    if took_ms > _SLOW_SYNC_MS:
        return _warn(check, found, "Every epoch waits for a few of these: use a faster disk.")
    return _ok(check, found)


def _write_durably(path: Path, clock: Clock, times: int = 9) -> tuple[float, float]:
    """Return the median time of a small durable write, and the difference of the folder's clock, in ms."""
    took = []
    for _ in range(times):
        began = clock.monotonic()
        with open(path, "wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        took.append((clock.monotonic() - began) * 1000)
    return sorted(took)[times // 2], path.stat().st_mtime * 1000 - clock.now_ms()


def memory(meminfo: Path = Path("/proc/meminfo"), limit: Path = Path("/sys/fs/cgroup/memory.max")) -> Diagnosis:
    """Check the memory available for Spark and its workers."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return _ok("memory", "unknown on this system")
    found = f"{size_text(available)} available"
    try:
        allowed = int(limit.read_text())
        available = min(available, allowed)
        found += f", this container may use {size_text(allowed)}"
    except (OSError, ValueError):
        pass
    if available < _GIGABYTE:
        return _warn("memory", found, "Spark's JVM alone takes about 1 GB: end something, or set spark.driver.memory.")
    return _ok("memory", found)


def limits(files: tuple[int, int] | None = None) -> Diagnosis:
    """Check how many files a process may open."""
    soft, hard = files or resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{soft} open files (at most {'unlimited' if hard == resource.RLIM_INFINITY else hard})"
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        return _warn("ulimit", found, f"ulimit -n {_FEW_FILES * 4}, before the cluster is started")
    return _ok("ulimit", found)


def machine_clock(clock: Clock) -> Diagnosis:
    """Check whether the clock is plausible, and synchronized if the system reports that."""
    now_ms = clock.now_ms()
    if now_ms < 1_750_000_000_000:
        return _wrong("clock", f"{now_ms // 1000} s since 1970", "Set the clock: watermarks and timers depend on it.")
    command = shutil.which("timedatectl")
    if command is None:
        return _ok("clock", "plausible; this system does not report whether it is synchronized")
    asked = subprocess.run([command, "show", "-p", "NTPSynchronized", "--value"], capture_output=True, text=True)
    if asked.returncode == 0 and asked.stdout.strip() == "no":
        return _warn("clock", "not synchronized", "timedatectl set-ntp true")
    return _ok("clock", "synchronized" if asked.stdout.strip() == "yes" else "plausible")


def port(configuration: Configuration) -> Diagnosis:
    """Check whether a JobManager can listen on the port, or already does."""
    number = options.read(configuration, cluster_options.REST_PORT)
    address = options.read(configuration, cluster_options.REST_BIND_ADDRESS)
    check = f"port {number}"
    if number == 0:
        return _ok("port", "any that is free")
    session = LocalCluster.of(configuration).running
    if session is not None and session.url.endswith(f":{number}"):
        return _ok(check, f"the session of this machine listens there (process {session.pid})")
    try:
        with socket.create_server((address, number), reuse_port=False):
            return _ok(check, f"free at {address}")
    except OSError as error:
        fix = "flott cluster start --port 0, or set rest.port."
        return _warn(check, f"cannot be used: {error.strerror or error}", fix)


# ------------------------------------------------------------------------------------------------------------ the rest


def configuration_file(path: Path | None) -> Iterator[Diagnosis]:
    """Check each entry of the configuration file."""
    check = "configuration"
    if path is None:
        yield _ok(check, "no flott.yaml: every option has its default, or comes from the environment")
        return
    try:
        findings = _settings.findings(path)
    except ConfigurationError as error:
        yield _wrong(check, str(error), "Mend the file.")
        return
    if not findings:
        yield _ok(check, f"{path} is in order")
    for finding in findings:
        place = f"{finding.place}: {finding.message}"
        if finding.wrong:
            yield _wrong(check, place, "Mend the line.")
        else:
            yield _warn(check, f"{place} ({finding.key})", "Remove the line.")


def session(ask: Callable[[], str], named: bool) -> Diagnosis:
    """Check whether a JobManager answers. ``named``: one is configured, or was started on this machine."""
    try:
        url = ask()
    except FlottError as error:
        if not named:
            return _ok("session", "none runs: `flott cluster start` starts one")
        fix = "flott cluster start, or correct rest.address, rest.port, security.ssl.rest.enabled or flott.rest.token."
        return _wrong("session", str(error).splitlines()[0], fix)
    return _ok("session", f"{url} answers")


def worst(found: Sequence[Diagnosis]) -> Verdict:
    """Return the most severe verdict."""
    verdicts = {diagnosis.verdict for diagnosis in found}
    return next((verdict for verdict in (Verdict.WRONG, Verdict.WARN) if verdict in verdicts), Verdict.OK)
