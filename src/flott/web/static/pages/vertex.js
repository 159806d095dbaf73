/**
 * The chosen vertex of a job: subtasks and their skew, metrics to pick and chart, latency, late records with samples,
 * operators, accumulators. Part of the page "Job".
 */

import { h } from "../elements.js";
import { NONE, bytes, clockTime, count, duration, isNumber, lag, lagOf, metric, percent, rate, shortId, signedDuration, togetherOf, unitOf, watermark } from "../format.js";
import { rarely } from "../live.js";
import { ENDED, badge, card, cardWith, choice, moment, pictured, table } from "../parts.js";
import { loadBar } from "../pictures/graph.js";
import { lineChart } from "../pictures/line_chart.js";
import { get, getOrNull, now, part, withQuery } from "../rest.js";
import { workerStacks } from "./worker_stacks.js";

/** Metrics that are charted until others are picked. */
const FIRST_METRICS = ["numRecordsInPerSecond", "numRecordsOutPerSecond"];
const MOST_METRICS = 8;
const KEPT_POINTS = 300;
/** Values that are older when the vertex is opened again are forgotten, in ms. */
const LONGEST_GAP = 15000;

/** Load a vertex. The answer has its id, because another one may have been chosen meanwhile. */
export async function loadVertex(context, signal, path, id) {
  const vertex = `${path}/vertices/${part(id)}`;
  const [detail, late, accumulators, metrics] = await Promise.all([
    get(`${path}/flott/vertices/${part(id)}`, { signal }),
    rarely(context.state, `${path}/flott/late`, 10000, (late) => getOrNull(late, { signal })),
    rarely(context.state, `${path}/accumulators`, 10000, (accumulators) => get(accumulators, { signal })),
    metricsOf(context, id, () => get(`${vertex}/subtasks/metrics`, { signal })),
  ]);
  if (metrics.picked.length > 0) await sample(metrics, signal, vertex);
  return { id, detail, late, accumulators, metrics };
}

/** The metrics of a vertex: their names, those that are charted, and the values since they were picked. */
async function metricsOf(context, id, ask) {
  const known = (context.state.metrics ||= new Map());
  if (!known.has(id)) {
    const names = (await ask()).map((one) => one.id).sort();
    known.set(id, { names, picked: FIRST_METRICS.filter((name) => names.includes(name)), samples: [] });
  }
  return known.get(id);
}

async function sample(metrics, signal, vertex) {
  const query = { get: metrics.picked.join(","), agg: "min,max,avg,sum" };
  const values = await get(withQuery(`${vertex}/subtasks/metrics`, query), { signal });
  const at = now();
  const { samples } = metrics;
  if (samples.length > 0 && at - samples.at(-1).at > LONGEST_GAP) samples.length = 0;
  samples.push({ at, values: Object.fromEntries(values.map((one) => [one.id, one])) });
  if (samples.length > KEPT_POINTS) samples.shift();
}

export function vertexDetail({ detail, late, accumulators, metrics }, vertex, context, job, series) {
  return h(
    "div",
    { class: "stack" },
    subtaskCard(detail),
    metricsCard(vertex, metrics, context, series, job),
    latencyCard(detail.latencies, job),
    lateCard(late, vertex),
    card("Operators", operatorTable(vertex)),
    accumulatorCard(accumulators),
    job.status === "RUNNING" ? workerStacks(vertex, context, job) : null,
  );
}

function operatorTable(vertex) {
  return table({
    caption: "Operators of the chain",
    rows: vertex.operators,
    key: (operator) => operator.id,
    columns: [
      { title: "Operator", wide: true, cell: (operator) => operator.name },
      { title: "Kind", cell: (operator) => operator.kind },
      { title: "Uid", cell: (operator) => operator.uid || h("span", { class: "quiet", title: "Without a uid, its state is found again only as long as the program's graph does not change." }, "none") },
      { title: "Defined at", cell: (operator) => (operator["source-line"] ? h("code", { title: operator["source-line"] }, shortPlace(operator["source-line"])) : NONE) },
      { title: "Guarantee", cell: (operator) => operator.guarantee || NONE },
    ],
  });
}

/** A line of a program without the folders before it: the title has all. */
export function shortPlace(place) {
  return place.split(/[\\/]/).pop();
}

/** Columns that say the same of every subtask, or nothing, are left out. */
function subtaskCard(detail) {
  const { subtasks, skew } = detail;
  const some = (name) => subtasks.some((subtask) => subtask[name] > 0);
  return card(
    "Subtasks",
    skewLine(skew),
    table({
      caption: "Subtasks",
      rows: subtasks,
      key: (subtask) => subtask.subtask,
      columns: [
        { title: "Subtask", number: true, cell: (subtask) => count(subtask.subtask + 1) },
        { title: "Status", cell: (subtask) => h("span", { title: subtask.executor ? `on ${subtask.host}` : null }, badge(subtask.status)) },
        { title: "Load", cell: (subtask) => loadBar(subtask) },
        { title: "Busy", number: true, cell: (subtask) => percent(subtask.busy) },
        some("backpressured") ? { title: "Back-pressured", number: true, cell: (subtask) => percent(subtask.backpressured) } : null,
        some("records-in") ? { title: "In", number: true, hint: "records read, and how many in a second now", cell: (subtask) => flow(subtask["records-in"], subtask["records-in-per-second"]) } : null,
        some("records-out") ? { title: "Out", number: true, hint: "records emitted, and how many in a second now", cell: (subtask) => flow(subtask["records-out"], subtask["records-out-per-second"]) } : null,
        some("bytes-in") ? { title: "Bytes in", number: true, hint: "from other tasks", cell: (subtask) => bytes(subtask["bytes-in"]) } : null,
        some("bytes-out") ? { title: "Bytes out", number: true, hint: "to other tasks", cell: (subtask) => bytes(subtask["bytes-out"]) } : null,
        some("state-size") ? { title: "State", number: true, cell: (subtask) => bytes(subtask["state-size"]) } : null,
        { title: "Watermark lag", number: true, hint: "how far event time is behind the clock; the watermark is below the pointer", cell: (subtask) => h("span", { title: watermark(subtask.watermark) }, lag(subtask.watermark, now())) },
        { title: "Executor", hint: "and its host", cell: (subtask) => (subtask.executor ? h("span", { title: subtask.host }, subtask.executor) : NONE) },
        { title: "Running since", cell: (subtask) => moment(subtask.start, clockTime(subtask.start)) },
        some("attempt") ? { title: "Attempt", number: true, hint: "the first one is 1", cell: (subtask) => count(subtask.attempt + 1) } : null,
      ].filter((column) => column !== null),
    }),
  );
}

/** How many there were, and how many a second there are. */
function flow(all, perSecond) {
  return h("span", null, count(all), h("span", { class: "quiet per-second" }, rate(perSecond)));
}

/** One sentence on skew: the subtask that has most against the mean. */
function skewLine(skew) {
  const parts = [["records", "records", count], ["busy", "busy time", duration], ["state", "state", bytes]]
    .filter(([name]) => skew && skew[name] && isNumber(skew[name].ratio) && skew[name].mean > 0)
    .map(([name, text, format]) => {
      const found = skew[name];
      return `${text}: ${format(found.largest)} in subtask ${found.subtask + 1}, ${found.ratio.toFixed(1)} times the mean`;
    });
  return h("p", { class: "quiet" }, parts.length === 0 ? "No skew is known yet." : `The largest against the mean — ${parts.join("; ")}.`);
}

const KINDS = [["auto", "As fits"], ["sum", "Sum"], ["spread", "Least, mean, largest"]];
const NUMBERS = { min: "least", avg: "mean", max: "largest", sum: "sum" };

function metricsCard(vertex, metrics, context, series, job) {
  const { names, picked, samples } = metrics;
  const pick = (name) => {
    const before = metrics.picked; // two may be picked before the page is drawn again
    metrics.picked = before.includes(name) ? before.filter((one) => one !== name) : [...before, name].slice(-MOST_METRICS);
    context.refresh();
  };
  const sought = (context.state.sought || "").toLowerCase();
  const found = names.filter((name) => name.toLowerCase().includes(sought));
  const history = series.vertices[vertex.id];
  const kind = context.state.metricKind || "auto";
  const set = (chosen) => {
    context.state.metricKind = chosen;
    context.update();
  };
  return cardWith(
    "Metrics",
    h(
      "div",
      { class: "row" },
      choice("What is drawn of the subtasks", KINDS, kind, set),
      h("input", {
        type: "search", placeholder: "Find a metric", "aria-label": "Find a metric", value: context.state.sought || "",
        on: { input: (event) => { context.state.sought = event.target.value; context.update(); } },
      }),
    ),
    h(
      "div",
      { class: "metrics" },
      h(
        "div",
        { class: "metric-list", role: "group", "aria-label": "Metrics to chart" },
        found.map((name) =>
          h(
            "label",
            { class: "check", key: name },
            h("input", { type: "checkbox", checked: picked.includes(name), on: { change: () => pick(name) } }),
            h("span", null, name),
          ),
        ),
        found.length === 0 ? h("p", { class: "quiet", key: "none" }, "No metric has this in its name.") : null,
        picked.length === MOST_METRICS ? h("p", { class: "quiet", key: "most" }, `At most ${MOST_METRICS} are drawn: one more replaces the first.`) : null,
      ),
      pictured(
        h(
          "div",
          { class: "charts" },
          history && picked.includes("numRecordsInPerSecond")
            ? lineChart({
                at: series.at, label: "Records in and out", format: rate,
                series: [{ name: "in", values: history["records-in-per-second"] }, { name: "out", values: history["records-out-per-second"] }],
              })
            : null,
          picked.filter((name) => !(history && FIRST_METRICS.includes(name))).map((name) => metricChart(name, samples, kind, job)),
        ),
        "The picked metrics",
        () => metricTable(picked, samples),
      ),
    ),
  );
}

/** One metric of all subtasks: what of them says something together, unless the reader wants something else. */
function metricChart(name, samples, kind, job) {
  const drawn = { auto: togetherOf(name), sum: ["sum"], spread: ["min", "avg", "max"] }[kind];
  const unit = unitOf(name);
  const value = (sample, which) => (sample.values[name] ? chartable(unit, sample.values[name][which]) : null);
  return lineChart({
    at: samples.map((one) => one.at),
    label: drawn.length === 1 ? `${name} (${NUMBERS[drawn[0]]} of subtasks)` : name,
    format: (number) => metric(name, number),
    scale: SCALES[unit] || "number",
    series: drawn.map((which) => ({ name: `${NUMBERS[which]} subtask`.replace("mean subtask", "mean"), values: samples.map((one) => value(one, which)) })),
    empty: ENDED.has(job.status) ? "The job has ended: there are no new values." : undefined,
  });
}

const SCALES = { watermark: "instant", instant: "instant", duration: "duration", bytes: "bytes", "bytes per second": "bytes" };

/** A watermark before the first record, and after the last, is no time that can be drawn. */
function chartable(unit, value) {
  return unit === "watermark" && lagOf(value, 0) === null ? null : value;
}

function metricTable(picked, samples) {
  const last = samples.at(-1);
  return table({
    caption: "Picked metrics",
    rows: picked,
    key: (name) => name,
    empty: "Pick a metric.",
    columns: [
      { title: "Metric", wide: true, cell: (name) => name },
      ...["min", "max", "avg", "sum"].map((kind) => ({
        title: NUMBERS[kind], number: true, cell: (name) => (last && last.values[name] ? metric(name, last.values[name][kind]) : NONE),
      })),
      { title: "At", cell: () => (last ? clockTime(last.at) : NONE) },
    ],
  });
}

/** The ages of latency markers, if the job sends any: how long records wait between a source and an operator. */
function latencyCard(latencies, job) {
  if (!latencies || latencies.length === 0) return null;
  const names = new Map(job.vertices.flatMap((vertex) => vertex.operators.map((operator) => [operator.id, operator.name])));
  const source = ({ source: id, "source-subtask": subtask }) => {
    if (id === null) return "all sources";
    return `${names.get(id) || shortId(id)}${subtask === null ? "" : `, subtask ${subtask + 1}`}`;
  };
  return card(
    "Latency",
    h("p", { class: "quiet" }, "The age of latency markers: how long a record waits between the source and the operator. The last markers up to the last checkpoint count. A negative age shows that the clocks of two hosts differ."),
    table({
      caption: "Latency",
      rows: latencies,
      key: (row) => `${row.operator} ${row.subtask} ${row.source} ${row["source-subtask"]}`,
      columns: [
        { title: "Operator", wide: true, cell: (row) => names.get(row.operator) || shortId(row.operator) },
        { title: "Subtask", number: true, cell: (row) => count(row.subtask + 1) },
        { title: "Markers from", cell: source },
        ...[["min", "Least"], ["p50", "Half below"], ["p95", "95 % below"], ["p99", "99 % below"], ["max", "Largest"]].map(([name, title]) => ({
          title, number: true, cell: (row) => signedDuration(row[name]),
        })),
        { title: "Markers", number: true, hint: "since the tasks have started", cell: (row) => count(row.count) },
      ],
    }),
  );
}

function lateCard(late, vertex) {
  const ids = new Set(vertex.operators.map((operator) => operator.id));
  const operators = (late ? late.operators : []).filter((one) => ids.has(one.id) && (one.late > 0 || one.dropped > 0));
  if (operators.length === 0) return null;
  return card(
    "Late records",
    operators.map((operator) =>
      h(
        "div",
        { key: operator.id, class: "stack" },
        h("p", null, h("strong", null, operator.operator), ` got ${count(operator["records-in"])} records: ${count(operator.late)} late, ${count(operator.dropped)} of them dropped.`),
        table({
          caption: `Late records of ${operator.operator}`,
          rows: operator.samples,
          empty: "No samples are kept.",
          columns: [
            { title: "Record", wide: true, cell: (sample) => h("code", null, sample.record) },
            { title: "Time of the record", cell: (sample) => watermark(sample.timestamp) },
            { title: "Watermark", cell: (sample) => watermark(sample.watermark) },
            { title: "Behind by", number: true, cell: (sample) => duration(sample.behind) },
          ],
        }),
      ),
    ),
  );
}

function accumulatorCard(accumulators) {
  const rows = accumulators["user-task-accumulators"];
  if (rows.length === 0) return null;
  return card(
    "Accumulators of the job",
    table({
      caption: "Accumulators",
      rows,
      key: (row) => row.name,
      columns: [
        { title: "Name", wide: true, cell: (row) => row.name },
        { title: "Kind", cell: (row) => row.type },
        { title: "Value", number: true, cell: (row) => row.value },
      ],
    }),
  );
}
