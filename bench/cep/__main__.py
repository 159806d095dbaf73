"""`make bench ARGS="--only cep"`: patterns in Flott, by hand in Flott, and in Flink's CEP in Java, one after the other.

CPU microseconds per event, which the load of other programs changes less than wall time. The number of matches must be
the same for all engines. `none` is the same job without a pattern: what reading and exchanging events costs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench import environments

ROOT = Path(__file__).parent.parent.parent
JAVA = Path(__file__).parent / "java"
RESULTS = ROOT / "bench" / "results" / "cep.json"
_LIMIT_SECONDS = 600
_BUILD_SECONDS = 900
_OPENED = ("java.util", "java.lang", "java.time")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a line per workload, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.cep", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workloads", default="three,loop,few,many")
    parser.add_argument("--engines", default="none,cep,hand,flink")
    parser.add_argument("--target", default="local", help="of Flott: local (Spark) or in-process")
    parser.add_argument("--quick", action="store_true", help="fewer events, and nothing is kept")
    given = parser.parse_args(arguments)
    events = 50_000 if given.quick else given.events
    rows = []
    for workload in given.workloads.split(","):
        row: dict = {"workload": workload, "events": events}
        for engine in given.engines.split(","):
            if engine in ("hand", "flink") and workload in ("few", "many"):
                continue
            row[engine] = _measure(engine, workload, events, given.target)
        rows.append(row)
        print(_line(row), flush=True)
        if not given.quick:
            document = {"machine": environments.facts(), "target": given.target, "results": rows}
            RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def _measure(engine: str, workload: str, events: int, target: str) -> dict:
    if engine == "flink":
        try:
            command = _java(workload, events)
        except environments.Unavailable as reason:
            return {"missing": str(reason)}
    else:
        command = [sys.executable, "-m", "bench.cep.run", "--engine", engine, "--workload", workload]
        command += ["--events", str(events), "--target", target]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"missing": f"stopped after {_LIMIT_SECONDS} s"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for line in reversed(output.splitlines()):
        if line.startswith('{"cpu_us"'):
            return json.loads(line)
    return {"missing": (errors.strip().splitlines() or ["no output"])[-1][:300]}


def _java(workload: str, events: int) -> list[str]:
    """Return the command of Flink's program, which Maven builds on first use."""
    from bench.cep.workloads import KEYS, WINDOW_MS

    jar = JAVA / "target" / "cep-bench-1.jar"
    if not jar.exists():
        try:
            subprocess.run(
                ["mvn", "-q", "-B", "package", "dependency:copy-dependencies"],
                cwd=JAVA, check=True, capture_output=True, timeout=_BUILD_SECONDS,
            )  # fmt: skip
        except FileNotFoundError:
            raise environments.Unavailable("there is no Maven") from None
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise environments.Unavailable(f"Maven could not build it: {type(error).__name__}") from None
    opened = [word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    path = os.pathsep.join([str(jar), str(JAVA / "target" / "dependency" / "*")])
    cores = str(os.cpu_count() or 1)
    return ["java", *opened, "-cp", path, "CepBench", workload, str(events), str(KEYS), str(WINDOW_MS), cores]


def _line(row: dict) -> str:
    parts = [f"{row['workload']:>6}"]
    for engine in ("none", "cep", "hand", "flink"):
        found = row.get(engine)
        if found is not None:
            missing = found.get("missing")
            parts.append(f"{engine} {missing}" if missing else f"{engine} {found['cpu_us']:.2f} us, {found['matches']}")
    cpu = {engine: row[engine]["cpu_us"] for engine in ("cep", "hand", "flink") if "cpu_us" in row.get(engine, {})}
    if "cep" in cpu:
        parts += [f"cep/{peer} {cpu['cep'] / cpu[peer]:.2f}" for peer in ("hand", "flink") if peer in cpu]
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
