"""`make bench ARGS="--only nexmark"`: Flott and Flink SQL on the same files, one after the other.

CPU microseconds per event and wall time, from the same JSON files, with a checkpoint every second on both sides.
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
from bench.nexmark.events import write_events
from bench.nexmark.queries import QUERIES

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results" / "nexmark.json"
DATA = ROOT / "bench" / "data"
_LIMIT_SECONDS = 600


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--engines", default="flott,flink")
    parser.add_argument("--formats", default="json")
    parser.add_argument("--backends", default="hashmap")
    parser.add_argument("--mini-batch", choices=["on", "off", "both"], default="both")
    parser.add_argument("--interval", default="1 s")
    given = parser.parse_args(arguments)
    folder = DATA / f"nexmark-{given.events}"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"writing {given.events:,} events to files, if they are not there", flush=True)
    write_events(folder, given.events)
    modes = {"on": [True], "off": [False], "both": [False, True]}[given.mini_batch]
    results = []
    for query in given.queries.split(","):
        for file_format in given.formats.split(","):
            for backend in given.backends.split(","):
                for mini_batch in modes:
                    row = {"query": query, "format": file_format, "backend": backend, "mini_batch": mini_batch}
                    for engine in given.engines.split(","):
                        row[engine] = _measure(engine, row, folder, given)
                    results.append(row)
                    print(_line(row), flush=True)
                    document = {"machine": environments.facts(), "events": given.events, "results": results}
                    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def _measure(engine: str, row: dict, folder: Path, given: argparse.Namespace) -> dict:
    try:
        python = environments.pyflink_python() if engine == "flink" else sys.executable
    except environments.Unavailable as reason:
        return {"missing": str(reason)}
    command = [python, "-m", "bench.nexmark.run", "--engine", engine, "--query", row["query"], "--folder", str(folder)]
    command += ["--format", row["format"], "--backend", row["backend"], "--events", str(given.events)]
    command += ["--interval", given.interval] + (["--mini-batch"] if row["mini_batch"] else [])
    paths = [str(ROOT), str(ROOT / "src")] if engine == "flott" else [str(ROOT)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"missing": f"stopped after {_LIMIT_SECONDS} s"}
    finally:
        _end(process)
    for line in reversed(output.splitlines()):
        if line.startswith('{"cpu_us"'):
            return json.loads(line)
    return {"missing": (errors.strip().splitlines() or ["no output"])[-1][:300]}


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _line(row: dict) -> str:
    parts = [f"{row['query']:>4} {row['format']} {row['backend']} mini-batch {'on ' if row['mini_batch'] else 'off'}"]
    for engine in ("flott", "flink"):
        found = row.get(engine)
        if found is None:
            continue
        if "missing" in found:
            parts.append(f"{engine}: {found['missing']}")
        else:
            parts.append(f"{engine} {found['cpu_us']:.2f} us CPU, {found['wall_s']:.1f} s")
    flott, flink = row.get("flott", {}), row.get("flink", {})
    if "cpu_us" in flott and "cpu_us" in flink:
        parts.append(f"ratio {flink['cpu_us'] / flott['cpu_us']:.1f}")
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
