"""Pure modules of the web UI, run in Node where it is installed: formatting, layout, addresses, arguments."""

from __future__ import annotations

import atexit
import json
import re
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
        "m.age(500)": "0 s", "m.age(59999)": "59 s", "m.age(120000)": "2 min 00 s", "m.age(3660000)": "1 h 01 min",
        "m.age(187200000)": "2 d 04 h", "m.age(null)": "–",
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


def inside(place: dict[str, float], x: float, y: float) -> bool:
    within = place["x"] <= x <= place["x"] + place["width"]
    return within and place["y"] <= y <= place["y"] + place["height"]


def points_of(path: str) -> list[tuple[float, float]]:
    """Return points along a path of M, C and L."""
    found: list[tuple[float, float]] = []
    for kind, text in re.findall(r"([MCL])([^MCL]*)", path):
        numbers = [float(number) for number in text.split()]
        ends = list(zip(numbers[::2], numbers[1::2], strict=True))
        if kind == "M":
            found.append(ends[0])
            continue
        start = found[-1]
        control = ends if kind == "C" else [start, ends[0], ends[0]]
        for step in range(1, 41):
            t, u = step / 40, 1 - step / 40
            weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
            corners = [start, *control]
            found.append((
                sum(weight * corner[0] for weight, corner in zip(weights, corners, strict=True)),
                sum(weight * corner[1] for weight, corner in zip(weights, corners, strict=True)),
            ))  # fmt: skip
    return found


#: Edges over several layers: behind one box, between two, and several along each other.
GRAPHS = {
    "a chain with a short cut": ["ab", "bc", "cd", "ad", "ac"],
    "a wide layer between": ["ab", "ac", "ad", "be", "ce", "de", "ae"],
    "two ways along each other": ["ab", "bc", "cd", "ad", "ea", "ed", "eb"],
    "short cuts of several sources": ["ac", "bc", "cd", "de", "ae", "be", "af", "df"],
}


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_no_edge_and_no_label_runs_behind_a_box(edges: list[str]) -> None:
    names = sorted(set("".join(edges)))
    nodes = json.dumps([{"id": name, "width": 200, "height": 94 + 20 * (ord(name) % 3)} for name in names])
    lines = json.dumps([{"source": edge[0], "target": edge[1]} for edge in edges])
    [[places, drawn, width, height]] = evaluate(
        "pictures/graph.js",
        f"(await (async () => {{ const l = await import({json.dumps((copied() / 'layout.js').as_uri())});"
        f" const p = l.layout({nodes}, {lines}); return [Object.fromEntries(p.nodes),"
        " p.edges.map((edge) => ({...edge, path: m.path(edge)})), p.width, p.height]; })())",
    )
    for edge in drawn:
        others = [place for name, place in places.items() if name not in (edge["source"], edge["target"])]
        for x, y in points_of(edge["path"]):
            assert 0 <= x <= width
            assert 0 <= y <= height
            assert not any(inside(place, x, y) for place in others), (edge["source"], edge["target"])
        assert not any(inside(place, edge["label"]["x"], edge["label"]["y"]) for place in places.values())
    labels = [edge["label"] for edge in drawn]
    for index, one in enumerate(labels):
        for other in labels[:index]:
            assert abs(one["x"] - other["x"]) > 40 or abs(one["y"] - other["y"]) >= 30, "labels lie on each other"


def test_boxes_of_a_chain_stand_in_one_line() -> None:
    nodes = json.dumps([{"id": name, "width": 200, "height": 94} for name in "abcdx"])
    edges = json.dumps([{"source": source, "target": target} for source, target in ("ab", "bc", "cd", "xa")])
    [places] = evaluate("layout.js", f"Object.fromEntries(m.layout({nodes}, {edges}).nodes)")
    assert len({place["y"] for place in places.values()}) == 1
    split = json.dumps([{"source": source, "target": target} for source, target in ("xa", "ab", "ac", "ad")])
    [places] = evaluate("layout.js", f"Object.fromEntries(m.layout({nodes}, {split}).nodes)")
    assert places["x"]["y"] == places["a"]["y"] == sorted(places[name]["y"] for name in "bcd")[1]
    assert evaluate("layout.js", "m.apart([5, 5, 30], [0, 10, 10])", "m.apart([], [])") == [[0, 10, 30], []]


def test_steps_of_a_grid_read_well() -> None:
    cases = {
        "m.niceStep(100)": 50, "m.niceStep(7)": 2, "m.niceByteStep(20 * 1024) / 1024": 5,
        "m.niceTimeStep(850)": 500, "m.niceTimeStep(8)": 2,
        "m.niceTimeStep(50_000) / 1000": 15, "m.niceTimeStep(200_000) / 60_000": 1,
        "m.niceTimeStep(2_000_000) / 60_000": 10, "m.niceTimeStep(40_000_000) / 3_600_000": 3,
        "m.niceTimeStep(400 * 3_600_000) / 86_400_000": 5,
    }  # fmt: skip
    assert dict(zip(cases, evaluate("pictures/axis.js", *cases), strict=True)) == cases


def test_an_axis_of_durations_has_the_steps_of_a_clock_and_one_of_times_has_no_zero() -> None:
    at = 1_767_225_605_000  # 01:00:05 in Oslo
    [durations, times, flat, none, below] = evaluate(
        "pictures/axis.js",
        "m.axis([210_000, null], 'duration').lines.map((one) => one / 60_000)",
        f"m.axis([{at}, {at + 38_000}], 'instant')",
        f"m.axis([{at}], 'instant')",
        "m.axis([], 'instant').lines",
        "m.axis([-3, 7])",
    )
    assert durations == [0, 1, 2, 3, 4]
    assert (times["low"], times["high"]) == (at - 5_000, at + 45_000)
    assert flat["high"] - flat["low"] == 1000
    assert none == []
    assert (below["low"], below["high"]) == (-5, 10)


def test_times_below_a_chart_are_round_on_the_clock_of_the_viewer() -> None:
    at = 1_767_225_605_000  # 01:00:05 in Oslo
    texts = "m.timeTicks({}, {}).map((one) => one.text)"
    found = evaluate(
        "pictures/axis.js", texts.format(at, at + 20_000), texts.format(at, at + 600_000),
        texts.format(at, at + 20 * 3_600_000), texts.format(at, at),
    )  # fmt: skip
    assert found == [
        ["01:00:05", "01:00:10", "01:00:15", "01:00:20", "01:00:25"], ["01:02", "01:04", "01:06", "01:08", "01:10"],
        ["06:00", "12:00", "18:00"], [],
    ]  # fmt: skip


def test_a_place_in_a_chart_is_that_of_the_nearest_moment() -> None:
    assert evaluate("pictures/line_chart.js", "[-5, 14, 16, 99].map((x) => m.nearest([0, 10, 20], (at) => at, x))") == [
        [0, 1, 2, 2]
    ]


def test_a_metric_has_the_unit_of_its_name_and_what_its_subtasks_say_together() -> None:
    cases = {
        "currentInputWatermark": ["watermark", ["min"]],
        "numRecordsInPerSecond": ["rate", ["sum"]],
        "numBytesOut": ["bytes", ["sum"]],
        "busyTimeMsPerSecond": ["share", ["min", "avg", "max"]],
        "Revenue.largeOrders": ["number", ["min", "avg", "max"]],
        "Source__orders.pendingCount": ["number", ["sum"]],
        "watermarkLag": ["duration", ["min", "avg", "max"]],
    }
    names = json.dumps(list(cases))
    [found] = evaluate("format.js", f"{names}.map((name) => [m.unitOf(name), m.togetherOf(name)])")
    assert dict(zip(cases, found, strict=True)) == cases
    assert evaluate("format.js", "m.metric('currentInputWatermark', 1767225600000)") == ["2026-01-01 01:00:00"]


def test_equal_widths_of_a_small_chart_are_equal_times() -> None:
    found = evaluate(
        "pictures/sparkline.js",
        "[0, 300_000, 540_000, 600_000].map(m.placeOf(600_000))",
        "m.minuteMeans([0, 30_000, 60_000, 90_000], [8, 1, 2, 4], 3)",
        "m.minuteMeans([], [], 2)",
    )
    assert found == [[0, 50, 90, 100], [3, 4.5, None], [None, None]]


def test_rows_are_sorted_by_a_column_and_those_without_a_value_are_last() -> None:
    rows = "[{ n: 2, t: 'b' }, { n: null, t: 'a' }, { n: 10, t: 'C' }]"
    found = evaluate(
        "sorting.js",
        f"m.inOrder({rows}, (row) => row.n, true).map((row) => row.n)",
        f"m.inOrder({rows}, (row) => row.n, false).map((row) => row.n)",
        f"m.inOrder({rows}, (row) => row.t, false).map((row) => row.t)",
    )
    assert found == [[10, 2, None], [2, 10, None], ["a", "b", "C"]]


def test_a_page_that_is_asked_once_is_not_asked_again_and_a_failure_is() -> None:
    code = """(await (async () => {
      const timers = [];
      Object.assign(globalThis, {
        document: { hidden: false, addEventListener() {}, removeEventListener() {} },
        setTimeout: (run, ms) => timers.push(ms), clearTimeout() {},
      });
      let fails = true;
      const load = async () => { if (fails) throw new Error(); };
      const poll = (pause) => new m.Poll(load, () => {}, () => {}, () => pause);
      const once = poll(0), often = poll(500);
      await once.ask(); fails = false; await once.ask(); await often.ask();
      return timers;
    })())"""
    assert evaluate("live.js", code) == [[1500, 500]]


def test_states_of_flott_and_places_in_programs_have_short_names() -> None:
    names = json.dumps(["cents", "_window-panes", "_window:last-seen"])
    assert evaluate("pages/state.js", f"{names}.map(m.stateName)") == [
        ["cents", "window panes (of Flott)", "last-seen (of each window)"]
    ]
    keys = json.dumps([{"key": {"text": text}} for text in ("10", "9", "'b'", "'a'")])
    assert evaluate("pages/state.js", f"m.sortedRows({keys}).map((row) => row.key.text)") == [["'a'", "'b'", "9", "10"]]
    assert evaluate("pages/vertex.js", "m.shortPlace('/home/me/shop.py:12')", "m.shortPlace('shop.py:3')") == [
        "shop.py:12", "shop.py:3",
    ]  # fmt: skip


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


def test_between_two_checkpoints_of_continuous_tasks_time_is_spent_processing() -> None:
    epochs = [
        {"start": 0, "end": 50, "mode": "epochs", "phases": {"run": 50}},
        {"start": 80, "end": 100, "mode": "epochs", "phases": {"run": 15, "commit": 5}},
        {"start": 400, "end": 440, "mode": "pipelined", "phases": {"align": 20, "sync": 5, "files": 5, "commit": 10}},
        {"start": 640, "end": 650, "mode": "pipelined", "phases": {"align": 10}},
    ]
    totals = "m.totals({}).map((one) => [one.name, one.ms])"
    [mixed, alone] = evaluate("pages/timeline.js", totals.format(epochs), totals.format(epochs[2:]))
    assert dict(mixed) == {
        "plan": 0, "schedule": 0, "run": 65, "align": 30, "sync": 5, "files": 5, "ack": 0, "commit": 15,
        "processing": 500, "between": 30,
    }  # fmt: skip
    assert dict(alone) == {"align": 30, "sync": 5, "files": 5, "ack": 0, "commit": 10, "processing": 200}


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


def test_sql_is_split_into_statements_and_the_one_at_the_cursor_is_found() -> None:
    text = "SELECT ';' AS a; -- one; two\nINSERT INTO t SELECT `;` FROM s ;\n\nEXECUTE STATEMENT SET BEGIN a; b; END; x"
    found = evaluate(
        "sql/text.js",
        f"m.statements({json.dumps(text)}).map((one) => one.text)",
        f"[0, 16, 20, 40, 200].map((at) => m.statementAt({json.dumps(text)}, at).text.slice(0, 6))",
        "m.statementAt(' -- nothing', 3)",
        f"m.tokens({json.dumps(text)}).map((one) => one.text).join('') === {json.dumps(text)}",
    )
    assert found[0] == [
        "SELECT ';' AS a", "INSERT INTO t SELECT `;` FROM s", "EXECUTE STATEMENT SET BEGIN a; b; END", "x",
    ]  # fmt: skip
    assert found[1:] == [["SELECT", "SELECT", "SELECT", "INSERT", "x"], None, True]


def test_the_place_of_an_error_is_found_in_the_statement() -> None:
    statement = json.dumps("SELECT '😀',\n nosuch FROM t")
    assert evaluate(
        "sql/text.js",
        f"m.errorPlace({statement}, 'Column is not known. (at line 2, column 2)')",
        f"m.errorPlace({statement}, 'Found it. (at line 1, column 11)').start",
        f"m.errorPlace({statement}, 'No place.')",
        "m.sentenceOf('Wrong. (at line 1, column 3)\\n  a b\\n    ^')",
        "m.holdsSecret(\"WITH ('password' = 'x')\")",
        "[m.quoted('a'), m.quoted('order'), m.quoted('a`b')]",
    ) == [{"start": 14, "end": 20}, 11, None, "Wrong. (at line 1, column 3)", True, ["a", "`order`", "`a``b`"]]


def test_changes_are_folded_into_rows_in_their_places_and_bounded() -> None:
    def page(*changes: tuple[str, list[Any]]) -> str:
        return json.dumps([{"kind": kind, "fields": fields} for kind, fields in changes])

    first = page(("INSERT", ["a", "1"]), ("INSERT", ["b", "1"]), ("INSERT", ["b", "1"]), ("INSERT", ["c", None]))
    second = page(("UPDATE_BEFORE", ["a", "1"]), ("UPDATE_AFTER", ["a", "2"]), ("DELETE", ["b", "1"]))
    alone = page(("UPDATE_BEFORE", ["c", None]), ("DELETE", ["nosuch", "1"]))
    many = json.dumps([{"kind": "INSERT", "fields": [str(number)]} for number in range(25)])
    found = evaluate(
        "sql/rows.js",
        f"(() => {{ const r = new m.Rows(); r.take({first}); r.take({second}); return r.all(); }})()",
        f"(() => {{ const r = new m.Rows(); r.take({first}); r.take({alone}); return [r.all(), r.updates]; }})()",
        f"(() => {{ const r = new m.Rows(10, 5); r.take({many}); r.take({page(('DELETE', ['24']), ('DELETE', ['1']))});"
        " return [r.all().length, r.cut, r.changes.length, r.count]; })()",
    )
    assert found[0] == [["a", "2"], ["b", "1"], ["c", None]]
    assert found[1] == [[["a", "1"], ["b", "1"], ["b", "1"]], True]
    assert found[2] == [9, 15, 5, 27]


def test_rows_become_csv_and_points_of_a_chart() -> None:
    columns = json.dumps([
        {"name": "at", "logicalType": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3}},
        {"name": "n", "logicalType": {"type": "DECIMAL", "precision": 10, "scale": 2}},
    ])  # fmt: skip
    rows = json.dumps([["2026-01-01 00:00:02.000", "1.50"], ["2026-01-01 00:00:01.000", None]])
    found = evaluate(
        "sql/rows.js",
        f"m.csv({columns}, [['a \"b\"', null], ['', '1,5']])",
        f"m.chartPoints({columns}, {rows}, 'at', ['n'], 10)",
        f"{columns}.map(m.typeText)",
    )
    assert found[0] == 'at,n\r\n"a ""b""",\r\n"","1,5"\r\n'
    assert [(point["x"], point["values"]) for point in found[1]["points"]] == [
        (1767225601000, [None]), (1767225602000, [1.5]),
    ]  # fmt: skip
    assert (found[1]["cut"], found[1]["continuous"]) == (0, True)
    assert found[2] == ["TIMESTAMP(3)", "DECIMAL(10, 2)"]


def test_an_axis_holds_all_values_and_zero() -> None:
    axes = evaluate("pictures/value_chart.js", "m.axisOf([3, 17])", "m.axisOf([-4, null])", "m.axisOf([])")
    assert [(axis["low"], axis["high"]) for axis in axes] == [(0, 20), (-4, 0), (0, 0.5)]


def test_an_explained_plan_is_read_for_the_drawing() -> None:
    nodes = {"nodes": [
        {"id": 1, "contents": "Source: t", "parallelism": 2, "pact": "Data Source"},
        {"id": 2, "contents": "Calc(select=[a, b], where=[>($0, 3)])", "parallelism": 2,
         "predecessors": [{"id": 1, "ship_strategy": "HASH"}]},
    ]}  # fmt: skip
    text = f"== Abstract Syntax Tree ==\n\nLogical\n\n== Physical Execution Plan ==\n\n{json.dumps(nodes)}\n"
    [titles, drawn, none] = evaluate(
        "sql/plan.js",
        f"m.sections({json.dumps(text)}).map((one) => one.title)", f"m.drawn({json.dumps(text)})", "m.drawn('x')",
    )  # fmt: skip
    assert titles == ["Abstract Syntax Tree", "Physical Execution Plan"]
    assert [operator["name"] for operator in drawn["vertices"][1]["operators"]] == [
        "Calc", "select=[a, b]", "where=[>($0, 3)]",
    ]  # fmt: skip
    assert [(edge["source"], edge["target"]) for edge in drawn["edges"]] == [("1", "2")]
    assert none is None


#: What the modules of SQL sessions find in a browser, and an answer for each request: ``answer(path)``.
SQL_BROWSER = """
    globalThis.window = { addEventListener() {} };
    globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
    globalThis.setInterval = () => 0;
    globalThis.sessionStorage = { getItem: () => null, setItem() {}, removeItem() {} };
    const json = (status, body) => ({ ok: status < 400, status, headers: new Map(), json: async () => body,
                                      text: async () => JSON.stringify(body) });
    let opened = 0;
    const late = [];
    globalThis.fetch = async (path) => {
        if (path.endsWith("/sessions")) return json(200, { sessionHandle: `s${(opened += 1)}` });
        if (path.includes("/s1/")) await new Promise((answer) => late.push(answer));
        return path.includes("/s1/") ? json(404, { errors: ["There is no session s1."] })
                                     : json(200, { operationHandle: "o" });
    };
"""


def test_a_late_answer_about_a_lost_session_leaves_the_next_one_alone() -> None:
    steps = """
        const lost = [];
        const session = new m.SqlSession((error) => lost.push(error.message));
        const asked = [session.start("a"), session.start("b")].map((one) => one.catch(() => "lost"));
        while (late.length < 2) await new Promise((turn) => setTimeout(turn));
        late[0]();
        await asked[0];
        await session.start("c");
        late[1]();
        await asked[1];
        return [lost.length, session.handle, [...session.operations]];
    """
    [found] = evaluate("sql/session.js", f"await (async () => {{ {SQL_BROWSER} {steps} }})()")
    assert found == [1, "s2", ["o"]]


def test_a_statement_that_is_stopped_for_another_run_leaves_that_run_alone() -> None:
    steps = """
        let go;
        const session = {
            start: () => new Promise((answer) => { go = () => answer("o1"); }),
            end: async () => {},
            fetch: async () => ({ resultType: "EOS", results: { columns: [], data: [] }, resultKind: "SUCCESS" }),
        };
        const runner = new m.Runner(session, () => {});
        const former = runner.run([{ text: "first" }]);
        while (!go) await null;
        session.start = (text) => (go(), new Promise((answer) => setTimeout(() => answer(text), 20)));
        await runner.run([{ text: "second" }, { text: "third" }]);
        await former;
        return runner.results.map((result) => result.status);
    """
    [found] = evaluate("sql/run.js", f"await (async () => {{ {steps} }})()")
    assert found == ["done", "done"]


# ---- the timeline ---------------------------------------------------------------------------------------------------


def test_ticks_of_a_time_axis_are_round_in_the_zone_of_the_viewer() -> None:
    cases = {
        "m.timeTicks(1767225602345, 1767225662000, 6, 1).map((one) => one.text)": [
            "01:00:10", "01:00:20", "01:00:30", "01:00:40", "01:00:50", "01:01:00",
        ],
        "m.timeTicks(1767225602345, 1767225602495, 6, 1).map((one) => one.text)": [
            "01:00:02.350", "01:00:02.400", "01:00:02.450",
        ],
        "m.timeTicks(1767225720000, 1767227400000, 6, 1).map((one) => one.text)": [
            "01:05", "01:10", "01:15", "01:20", "01:25", "01:30",
        ],
        "m.timeTicks(1767232800000, 1767276000000, 6, 1).map((one) => one.text)": [
            "04:00", "06:00", "08:00", "10:00", "12:00", "14:00",
        ],
    }  # fmt: skip
    assert dict(zip(cases, evaluate("pictures/axis.js", *cases), strict=True)) == cases


def test_events_after_the_last_bar_are_in_the_picture() -> None:
    epochs = [{"start": 1000, "end": 2000}, {"start": 2000, "end": 3000}]
    events = [{"at": 500, "kind": "failure", "text": ""}, {"at": 9000, "kind": "failure", "text": ""}]
    spans = [f"m.spanOf({json.dumps(shown)}, {json.dumps(events)})" for shown in (epochs, [])]
    [span, alone] = evaluate("pictures/epoch_bars.js", *spans)
    assert span["first"] == 1000, "what happened before the first epoch that is shown is left out"
    assert span["last"] > 9000
    assert (alone["first"], alone["last"] > 9000) == (500, True), "a job that failed before its first checkpoint"


def test_labels_of_events_do_not_overlap_and_near_events_share_one() -> None:
    events = [
        {"at": at, "kind": kind, "text": "x"}
        for at, kind in [
            (100, "failure"), (101, "restart"), (103, "restored"), (140, "savepoint"), (150, "savepoint"),
            (170, "savepoint"), (180, "savepoint"), (190, "savepoint"), (200, "failure"), (1075, "rescale"),
        ]
    ]  # fmt: skip
    [marks] = evaluate("pictures/epoch_bars.js", f"m.marksOf({json.dumps(events)}, (at) => at)")
    assert (marks[0]["text"], marks[0]["bad"]) == ("failure, restart, restored", True)
    assert len(marks[0]["title"].splitlines()) == 3, "its title has them all"
    labelled = [mark for mark in marks if mark["lane"] >= 0]
    assert [mark["text"] for mark in labelled if mark["bad"]] == ["failure, restart, restored", "failure"]
    assert len(labelled) < len(marks), "there is room for some only"
    for one in labelled:
        assert one["from"] >= 0
        assert one["from"] + one["width"] <= 1080
        for other in labelled:
            if one["lane"] == other["lane"] and one["from"] < other["from"]:
                assert one["from"] + one["width"] < other["from"]


def test_one_long_epoch_does_not_make_slivers_of_all_others() -> None:
    durations = ([300, 310, 320, 330, 20000], [100, 200, 250], [0])
    found = evaluate("pictures/epoch_bars.js", *(f"m.limitOf({list(each)})" for each in durations))
    assert found == [495, 250, 1]


# ---- event time -----------------------------------------------------------------------------------------------------


def place(name: str, *inputs: dict[str, Any], holds: bool = False, id: str = "") -> dict[str, Any]:
    return {"id": id or name, "name": name, "watermark": 5, "holds": holds, "inputs": list(inputs)}


def test_the_path_of_event_time_joins_places_that_feed_several_and_marks_what_holds_it_back() -> None:
    join = place("join", place("orders", place("split 0", holds=True), place("split 1")), place("prices"))
    again = place("join (see above)", id="join")
    sinks = json.dumps([place("a", join), place("b", again)])
    names, edges = evaluate(
        "pictures/time_path.js",
        f"[...m.pathOf({sinks}).nodes.values()].map((one) => one.name)",
        f"m.pathOf({sinks}).edges",
    )
    assert sorted(names) == ["a", "b", "join", "orders", "prices", "split 0", "split 1"]
    held = {(edge["source"], edge["target"]) for edge in edges if edge["held"]}
    assert held == {("split 0", "orders"), ("orders", "join"), ("join", "a"), ("join", "b")}
    assert len(edges) == 6


def test_the_scale_of_event_time_does_not_exaggerate_chance() -> None:
    now = 1767225600000
    places = [{"watermark": now}, {"watermark": now + 27}, {"watermark": -9223372036854775808}]
    found = evaluate("pictures/time_path.js", f"m.scaleOf({json.dumps(places)})", "m.scaleOf([])")
    assert found == [{"first": now, "span": 27, "length": 1000}, None]


def test_names_of_vertices_have_arrows() -> None:
    assert evaluate("parts.js", "m.arrows('a -> b -> Sink: c')") == ["a → b → Sink: c"]


# ---- queries of SQL -------------------------------------------------------------------------------------------------


def test_rows_of_a_query_are_not_read_for_a_hidden_tab_or_another_page() -> None:
    code = """(async () => {
        const listeners = new Set();
        const on = {
            addEventListener: (_, each) => listeners.add(each),
            removeEventListener: (_, each) => listeners.delete(each),
        };
        globalThis.document = { hidden: true, ...on };
        globalThis.window = on;
        globalThis.location = { hash: "#/sql" };
        const told = () => [...listeners].forEach((each) => each());
        const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        let fetched = 0;
        const session = {
            start: async () => "one",
            end: async () => {},
            fetch: async () => {
                fetched += 1;
                return { resultType: "PAYLOAD", isQueryResult: true, results: { columns: [{ name: "n" }], data: [] } };
            },
        };
        const runner = new m.Runner(session, () => {});
        await runner.run([{ text: "SELECT 1" }]);
        await wait(700);
        const hidden = fetched;
        document.hidden = false;
        location.hash = "#/";
        told();
        await wait(100);
        const elsewhere = fetched;
        location.hash = "#/sql?x=1";
        told();
        await wait(700);
        const seen = fetched;
        await runner.stop();
        return [hidden, elsewhere, seen > 1, listeners.size];
    })()"""
    assert evaluate("sql/run.js", f"await {code}") == [[1, 1, True, 0]]
