"""Pure modules of the web UI, run in Node where it is installed: formatting, layout, addresses, arguments."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import flott.web

STATIC = Path(flott.web.__file__).parent / "static"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed; only these tests use it")


@cache
def copied() -> Path:
    """Return the files where Node takes them for modules: beside a package.json, which the web UI does not have."""
    folder = Path(tempfile.mkdtemp(prefix="flott-web-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(STATIC, folder / "static")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder / "static"


def evaluate(module: str, *expressions: str) -> list[Any]:
    """Return the values of JavaScript expressions in which ``m`` is the module."""
    code = f"""
        globalThis.Node ??= class {{}};
        const m = await import({json.dumps((copied() / module).as_uri())});
        console.log(JSON.stringify([{",".join(expressions)}]));
    """
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", code],
        capture_output=True, text=True, timeout=300, env={"TZ": "Europe/Oslo", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_numbers_have_units() -> None:
    cases = {
        "m.short(0)": "0", "m.short(999)": "999", "m.short(1234)": "1.23 k", "m.short(1234567)": "1.23 M",
        "m.short(0.256)": "0.26", "m.rate(12.5)": "12.5/s", "m.short(999999)": "1 M", "m.short('NaN')": "–",
        "m.bytes(0)": "0 B", "m.bytes(2048)": "2 KiB", "m.bytes(1536 * 1024)": "1.5 MiB", "m.bytes(-1)": "–",
        "m.percent(0.256)": "26 %", "m.percent(0.004)": "0.4 %", "m.percent(0)": "0 %",
        "m.count(1234567)": "1,234,567", "m.count(null)": "–",
        "m.duration(850)": "850 ms", "m.duration(12300)": "12.3 s", "m.duration(245000)": "4 min 5 s",
        "m.duration(12000000)": "3 h 20 min", "m.duration(187200000)": "2 d 4 h", "m.duration(-1)": "–",
        "m.age(500)": "under 1 s", "m.age(59999)": "59 s", "m.age(120000)": "2 min",
    }  # fmt: skip
    assert dict(zip(cases, evaluate("format.js", *cases), strict=True)) == cases


def test_times_are_in_the_zone_of_the_viewer() -> None:
    cases = {
        "m.dateTime(1767225600000)": "2026-01-01 01:00:00",
        "m.dateTime(-1)": "–",
        "m.watermark(-9223372036854775808)": "none yet",
        "m.watermark(9223372036854775807)": "end of input",
        "m.lag(1767225600000, 1767225605500)": "5 s",
        "m.lag(1767225600000, 1767225598000)": "2 s ahead",
        "m.lag(null, 5)": "–",
        "m.exactWatermark(1767225600007)": "2026-01-01 01:00:00.007",
    }
    assert dict(zip(cases, evaluate("format.js", *cases), strict=True)) == cases


def test_a_vertex_is_right_of_all_its_inputs_and_boxes_do_not_overlap() -> None:
    nodes = [{"id": name, "width": 100, "height": 50 + 10 * index} for index, name in enumerate("abcdefg")]
    edges = [("a", "c"), ("b", "c"), ("c", "d"), ("c", "e"), ("d", "f"), ("e", "f"), ("a", "f"), ("b", "g")]
    lines = json.dumps([{"source": source, "target": target} for source, target in edges])
    found = evaluate(
        "layout.js",
        f"Object.fromEntries(m.layout({json.dumps(nodes)}, {lines}).nodes)",
        f"m.layout({json.dumps(nodes)}, {lines}).edges.length",
    )
    places, drawn = found
    assert drawn == len(edges)
    for source, target in edges:
        assert places[source]["x"] + 100 < places[target]["x"]
    for one in places:
        for other in places:
            same_column = one < other and places[one]["x"] == places[other]["x"]
            if same_column:
                low, high = sorted((places[one], places[other]), key=lambda place: place["y"])
                assert low["y"] + low["height"] < high["y"]


def test_a_cycle_or_an_unknown_vertex_does_not_stop_the_layout() -> None:
    nodes = json.dumps([{"id": name, "width": 1, "height": 1} for name in "ab"])
    edges = json.dumps([{"source": "a", "target": "b"}, {"source": "b", "target": "a"}, {"source": "x", "target": "a"}])
    assert evaluate("layout.js", f"m.layout({nodes}, {edges}).nodes.size", "m.layout([], []).width") == [2, 0]


def test_steps_of_a_grid_read_well() -> None:
    steps = evaluate("pictures/line_chart.js", "m.niceStep(100)", "m.niceStep(7)", "m.niceByteStep(20 * 1024) / 1024")
    assert steps == [50, 2, 5]


def test_a_line_has_gaps_where_values_are_unknown() -> None:
    drawn = evaluate("pictures/line_chart.js", "m.path([0, 1, 2, 3], [5, null, 6, 7], (x) => x, (y) => y)")
    assert drawn == ["M0.0 5.0M2.0 6.0L3.0 7.0"]


def test_the_shares_of_the_timeline_add_up() -> None:
    epochs = [
        {"start": 0, "end": 50, "phases": {"plan": 10, "run": 40}},
        {"start": 80, "end": 100, "phases": {"run": 15, "commit": 5}},
    ]
    [found] = evaluate("pages/timeline.js", f"m.totals({json.dumps(epochs)}).map((one) => [one.name, one.ms])")
    assert dict(found) == {"plan": 10, "schedule": 0, "run": 55, "ack": 0, "commit": 5, "between": 30}


def test_a_flame_graph_has_bars_by_share_and_functions_by_their_own_time() -> None:
    leaf = {"name": "work", "value": 3, "children": []}
    tree = {"name": "root", "value": 4, "children": [{"name": "main", "value": 4, "children": [leaf]}]}
    text = json.dumps(tree)
    [bars, own] = evaluate("pictures/flame_graph.js", f"m.barsOf({text})", f"m.ownShares({text})")
    assert [(bar["name"], bar["depth"], bar["share"]) for bar in bars] == [("main", 0, 1), ("work", 1, 0.75)]
    assert [(one["name"], one["samples"]) for one in own] == [("work", 3), ("main", 1)]


def test_arguments_are_split_as_in_a_shell() -> None:
    text = json.dumps("""--name "two words" --x='a "b"' plain\\ space  last""")
    assert evaluate("pages/submit.js", f"m.splitArguments({text})", 'm.splitArguments("")') == [
        ["--name", "two words", '--x=a "b"', "plain space", "last"], [],
    ]  # fmt: skip


def test_a_plan_is_read_as_text() -> None:
    node = json.dumps({"description": "Source: &lt;b&gt;<br/>+- Map &amp; more<br/>"})
    assert evaluate("pages/submit.js", f"m.operatorsOf({node})") == [["Source: <b>", "Map & more"]]


def test_an_address_leads_to_its_page_and_its_parameters() -> None:
    found = evaluate(
        "routes.js",
        'm.find("#/jobs/ab%2Fc/state?operator=x").params',
        'm.find("#/jobs/ab%2Fc/state?operator=x").query',
        'm.find("#/nosuch")',
    )
    assert found == [{"job": "ab/c"}, {"operator": "x"}, None]
    assert evaluate("addresses.js", 'm.jobAddress("a b", "failure", {at: 5})') == ["#/jobs/a%20b/failure?at=5"]
