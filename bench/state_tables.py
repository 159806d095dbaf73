"""The README's tables about large state. They are empty until that was measured."""

from __future__ import annotations

import statistics

from bench import amounts, report, state

#: (workload, runner) -> result
Found = dict[tuple[str, str], dict]

SIZES = {"state_10k": "10,000 keys", "state_1m": "1 million keys", "state_5m": "5 million keys"}
BACKENDS = {"flott": "Flott, hashmap", "flott-rocksdb": "Flott, rocksdb"}
#: A peer, its title, and which of Flott's backends it is compared with.
PEERS = {
    "limit": ("bare Python loop on all cores", "flott"),
    "pyflink-rocksdb": ("PyFlink, RocksDB", "flott-rocksdb"),
    "spark-tws": ("Spark `transformWithState`, RocksDB", "flott-rocksdb"),
}
PIPELINED = {"flott-pipelined": "Flott, pipelined, hashmap"}
COLUMNS = {**BACKENDS, **{peer: title for peer, (title, _) in PEERS.items()}}
RESTORES = {"restore_1m": "1 million keys", "restore_5m": "5 million keys"}


def tables(found: Found) -> list[str]:
    """Throughput by the number of keys, and what checkpoint, restore and rescale cost."""
    rates, costs = _throughput(found), _costs(found)
    return [*(["", *rates] if rates else []), *(["", *costs] if costs else [])]


# --- throughput ------------------------------------------------------------------------------------------------------


def _throughput(found: Found) -> list[str]:
    if not any(workload in SIZES for workload, _ in found):
        return []
    least, most = state.THROUGHPUT[0], state.THROUGHPUT[-1]
    columns = COLUMNS | (PIPELINED if any(runner in PIPELINED for _, runner in found) else {})
    by_size = " | ".join(_decline(found, runner, least, most) for runner in columns)
    return [
        "| records a second, keyed value state | " + " | ".join(columns.values()) + " |",
        "| --- |" + " ---: |" * len(columns),
        *(f"| {title} | " + " | ".join(_cells(found, size)) + " |" for size, title in SIZES.items()),
        f"| {SIZES[most]} against {SIZES[least]} | {by_size} |",
        "",
        f"Epochs of {state.EPOCH_RECORDS:,} records touch 1 % of the keys, or all 10,000; every epoch is a durable"
        " checkpoint of Flott's. In brackets: Flott's rate as a multiple of the peer's, on the hash-map backend for the"
        " loop, on RocksDB for the others. Not measured: where filling the state takes more than ten minutes.",
    ]


def _cells(found: Found, size: str) -> list[str]:
    cells = [_rate(found, size, runner) for runner in BACKENDS]
    for peer, (_, ours) in PEERS.items():
        value, flott = report.median(found.get((size, peer))), report.median(found.get((size, ours)))
        bracket = f" ({amounts.times(flott / value)})" if flott and value else ""
        cells.append(_rate(found, size, peer) + bracket)
    pipelined = PIPELINED if any(runner in PIPELINED for _, runner in found) else {}
    return cells + [_rate(found, size, runner) for runner in pipelined]


def _rate(found: Found, size: str, runner: str) -> str:
    result = found.get((size, runner))
    return "not measured" if result is None else amounts.rate(report.median(result))


def _decline(found: Found, runner: str, least: str, most: str) -> str:
    little, much = report.median(found.get((least, runner))), report.median(found.get((most, runner)))
    return amounts.times(much / little) if little and much else ""


# --- checkpoint, restore, rescale ------------------------------------------------------------------------------------


def _costs(found: Found) -> list[str]:
    rows = [
        *_checkpoint_rows(found),
        *(_row(found, workload, f"restore, {title}", _restored) for workload, title in RESTORES.items()),
        _row(found, "rescale", "longest gap at a rescale, 1 million keys", _rescaled),
    ]
    rows = [row for row in rows if row]
    if not rows:
        return []
    return [
        "| | " + " | ".join(BACKENDS.values()) + " |",
        "| --- |" + " ---: |" * len(BACKENDS),
        *rows,
        *_limits(found),
    ]


def _checkpoint_rows(found: Found) -> list[str]:
    shares = [change["share"] for change in found.get(("checkpoint", "flott"), {}).get("changes", ())]
    return [
        _row(found, "checkpoint", f"checkpoint, {share:.1%} of 1 million keys changed", _saved(share))
        for share in shares
    ]


def _saved(share: float):
    def cell(result: dict) -> str:
        change = next(change for change in result["changes"] if change["share"] == share)
        return f"{amounts.size(change['bytes'])} in {amounts.duration(statistics.median(change['milliseconds']))}"

    return cell


def _restored(result: dict) -> str:
    speed = result["megabytes_per_second"]
    if speed is None:
        return "missing"  # lost in the noise of a job's start
    return f"{amounts.size(result['full_bytes'])} in {amounts.duration(report.median(result) or 0)}, {speed:,.0f} MB/s"


def _rescaled(result: dict) -> str:
    worst = max(result["gaps"], key=lambda gap: gap["epochs"])
    return f"{amounts.duration(worst['milliseconds'])}, {worst['epochs']:.1f} epochs"


def _row(found: Found, workload: str, title: str, cell) -> str:
    """Return a row, or nothing if it was not measured."""
    results = [found.get((workload, runner)) for runner in BACKENDS]
    if not any(results):
        return ""
    cells = ["missing" if not result or "missing" in result else cell(result) for result in results]
    return f"| {title} | " + " | ".join(cells) + " |"


def _limits(found: Found) -> list[str]:
    """The parts of a restore, done alone."""
    alone = found.get(("restore_5m", "flott"), {}).get("alone_milliseconds")
    if not alone:
        return []
    read, decode, pickle = (amounts.duration(alone[part]) for part in ("read", "decode", "pickle"))
    return [
        "",
        f"Of a restore of five million keys, reading the files alone takes {read} (from the page cache), decoding them"
        f" {decode}; `pickle.load` of dicts with the same keys and values takes {pickle}, each on all cores.",
    ]
