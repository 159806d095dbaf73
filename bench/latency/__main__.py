"""`make bench ARGS="--only latency"`: latency from source to sink, recovery, and an idle job, one after the other.

Every engine runs the same program: a source of ``(key, due)``, one exchange, a keyed function that counts in value
state, a sink that takes the age of each result against the time at which its record was due. A checkpoint every second.
First Flott's maximum is measured with a backlog, pipelined; it gives the rates. Each measurement is a process of its
own, and one whose results are not those of the reference is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import environments
from bench.latency import flink, plan, samples
from bench.latency.timetable import WARM_UP_S, Timetable

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results" / "latency.json"
LOGS = ROOT / "bench" / "results" / "logs"
PARTS = ("latency", "recovery", "idle")
LIMIT_SECONDS = 400
SECONDS, QUICK_SECONDS, FLOOD_SECONDS = 10.0, 2.0, 4.0
#: More than any engine here takes: a backlog for the whole measurement.
FLOOD_RATE = 4_000_000
JAR_VARIABLE = "FLOTT_BENCH_JAR"


def main(arguments: list[str] | None = None) -> int:
    """Measure what was chosen, print a line for each, and write the results after each."""
    chosen = _arguments(arguments)
    document = _last()
    document["machine"] = environments.facts()
    parts = chosen.parts.split(",")
    if "latency" in parts:
        _latency(document, chosen)
    for part in ("recovery", "idle"):
        if part in parts:
            document[part] = _part(part, chosen.quick)
            print(f"{part}: {json.dumps(document[part])}", flush=True)
            _write(document, chosen.quick)
    return 0


def _latency(document: dict[str, Any], chosen: argparse.Namespace) -> None:
    engines = chosen.runners.split(",")
    wanted = chosen.loads.split(",") if chosen.loads else [load.name for load in plan.LOADS]
    loads = plan.QUICK if chosen.quick else [load for load in plan.LOADS if load.name in wanted]
    document["machine"]["flink"] = environments.flink_version()
    if not chosen.quick and (plan.FASTEST in engines or "maximum" not in document):
        document["maximum"] = _maxima()
    maxima = document.get("maximum", {})
    todo = plan.measurements(engines, loads)
    old = [] if chosen.quick else plan.kept(document.get("results", []), todo, maxima)
    results: list[dict[str, Any]] = []
    for engine, load in todo:
        rate = load.rate(maxima)
        reason = plan.too_much(engine, rate, load.keys, results)
        table = Timetable(
            rate,
            QUICK_SECONDS if chosen.quick else chosen.seconds,
            load.keys,
            load.keys,
            "",
            plan.ENGINES[engine].settle_s,
        )
        began = time.monotonic()
        answer = {"missing": reason} if reason else measure(engine, table)
        took = round(time.monotonic() - began, 1)
        results.append({
            "engine": engine, "load": load.name, "rate": rate, "keys": load.keys, **answer,
            "load_before": round(os.getloadavg()[0], 2), "took_seconds": took, "date": environments.now(),
        })  # fmt: skip
        print(_line(results[-1]), flush=True)
        document["results"] = [*old, *results]
        _write(document, chosen.quick)


def _maxima() -> dict[str, float]:
    """Flott's maxima, by the number of keys."""
    found = {}
    for keys in (plan.LITTLE, plan.MUCH):
        with tempfile.TemporaryDirectory(prefix="flott-bench-") as scratch:
            table = _in(scratch, Timetable(FLOOD_RATE, FLOOD_SECONDS, keys, keys, ""))
            log = run(plan.FASTEST, table, f"maximum-{keys}")
            found[str(keys)] = round(samples.rate(table, samples.read(Path(table.folder)), WARM_UP_S), 1)
        if not found[str(keys)]:
            raise RuntimeError(f"no maximum was measured: see {log}")
        print(f"maximum, {keys:,} keys: {found[str(keys)]:,.0f} records a second", flush=True)
    return found


def measure(engine: str, table: Timetable) -> dict[str, object]:
    """Run an engine with a timetable and return its numbers, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="flott-bench-") as scratch:
        table = _in(scratch, table)
        try:
            log = run(engine, table, f"{engine}-{table.rate}-{table.keys}")
        except environments.Unavailable as reason:
            return {"missing": str(reason)}
        except subprocess.TimeoutExpired:
            return {"missing": f"stopped after {LIMIT_SECONDS} s"}
        parts = list(samples.read(Path(table.folder)))
        return samples.judge(table, parts, WARM_UP_S) if parts else {"missing": reason_in(log.read_text())}


def reason_in(log: str) -> str:
    """Return the line of a log that says best why nothing came out."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line or "[STREAMING_" in line]
    return (errors or lines or ["no output"])[-1][:300]


def _in(scratch: str, table: Timetable) -> Timetable:
    folder = Path(scratch, "ages")
    folder.mkdir()
    return replace(table, folder=str(folder))


def run(engine: str, table: Timetable, name: str) -> Path:
    """Run one job in a process of its own and return its log; the group of processes is ended afterwards."""
    log = LOGS / f"latency-{name}.log"
    _finish(_command(engine, table), log)
    return log


def _command(engine: str, table: Timetable) -> list[str]:
    spec = plan.ENGINES[engine]
    if spec.module == "flink":
        return flink.command(table, (Path(table.folder).parent / "checkpoints").as_uri())
    python = environments.pyflink_python() if spec.module == "pyflink" else sys.executable
    if spec.module == "spark":
        python = environments.spark_tws_python()
    module = f"bench.latency.{spec.module}"
    return [python, "-m", module, "--timetable", table.as_json(), "--variant", spec.variant]


def _finish(command: list[str], log: Path) -> str:
    """Run a command to its end and return what it printed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    paths = [str(ROOT), str(ROOT / "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if "bench.latency.pyflink" in command:
        environment[JAR_VARIABLE] = str(flink.jar())
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            output, _ = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with log.open("a") as whole:
        whole.write(output)
    return output


def _part(part: str, quick: bool) -> Any:
    """The answer of `bench.latency.recovery` or `bench.latency.idle`."""
    log = LOGS / f"latency-{part}.log"
    try:
        output = _finish([sys.executable, "-m", f"bench.latency.{part}", *(["--quick"] if quick else [])], log)
    except subprocess.TimeoutExpired:
        return {"missing": f"stopped after {LIMIT_SECONDS} s"}
    for line in reversed(output.splitlines()):
        if line.startswith('{"'):
            return json.loads(line)
    return {"missing": reason_in(log.read_text())}


def _last() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def _write(document: dict[str, Any], quick: bool) -> None:
    if not quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(document, indent=2) + "\n")


def _line(found: dict[str, Any]) -> str:
    begin = f"{found['engine']:>17} {found['load']:>10} {found['rate']:>9,}/s "
    if "missing" in found:
        return f"{begin} missing: {found['missing']}"
    names = (*samples.PERCENTILES, "max", "longest_gap")
    return begin + "  ".join(f"{name} {found[name]:,.2f} ms" for name in names) + f"  ({found['took_seconds']:.0f} s)"


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench --only latency", description=__doc__)
    parser.add_argument("--runners", default=",".join(plan.USUAL), help=f"of {', '.join(plan.ENGINES)}")
    parser.add_argument("--loads", default="", help=f"of {', '.join(load.name for load in plan.LOADS)}")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement, after the warm-up")
    parser.add_argument("--quick", action="store_true", help="short runs at the common rate; nothing is kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
