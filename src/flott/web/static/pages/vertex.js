/**
 * The chosen vertex of a job: subtasks and their skew, late records with samples, accumulators, metrics to pick and
 * chart. Part of the page "Job".
 */

import { h } from "../elements.js";
import { NONE, bytes, clockTime, count, duration, isNumber, metric, percent, rate, watermark } from "../format.js";
import { rarely } from "../live.js";
import { badge, card, cardWith, pictured, table } from "../parts.js";
import { loadBar } from "../pictures/graph.js";
import { lineChart } from "../pictures/line_chart.js";
import { get, getOrNull, now, part, withQuery } from "../rest.js";
import { workerStacks } from "./worker_stacks.js";

/** Metrics that are charted until others are picked. */
const FIRST_METRICS = ["numRecordsInPerSecond", "numRecordsOutPerSecond"];
const KEPT_POINTS = 300;

export async function loadVertex(context, signal, path, id) {
  const vertex = `${path}/vertices/${part(id)}`;
  const [detail, late, accumulators, names] = await Promise.all([
    get(`${path}/flott/vertices/${part(id)}`, { signal }),
    rarely(context.state, `${path}/flott/late`, 10000, (late) => getOrNull(late, { signal })),
    rarely(context.state, `${path}/accumulators`, 10000, (accumulators) => get(accumulators, { signal })),
    context.state.metricNames && context.state.metricsOf === id
      ? context.state.metricNames
      : get(`${vertex}/subtasks/metrics`, { signal }).then((list) => list.map((one) => one.id)),
  ]);
  remember(context, id, names);
  if (context.state.picked.length > 0) await sample(context, signal, vertex);
  return { detail, late, accumulators };
}

/** Metrics are charted from when they were picked, so their values are kept here. */
function remember(context, id, names) {
  if (context.state.metricsOf === id) return;
  context.state.metricsOf = id;
  context.state.metricNames = names.sort();
  context.state.picked = FIRST_METRICS.filter((name) => names.includes(name));
  context.state.samples = [];
}

async function sample(context, signal, vertex) {
  const { picked, samples } = context.state;
  const values = await get(withQuery(`${vertex}/subtasks/metrics`, { get: picked.join(","), agg: "min,max,avg,sum" }), { signal });
  samples.push({ at: now(), values: Object.fromEntries(values.map((one) => [one.id, one])) });
  if (samples.length > KEPT_POINTS) samples.shift();
}

export function vertexDetail({ detail, late, accumulators }, vertex, context, job, series) {
  return h(
    "div",
    { class: "stack" },
    card("Operators", operatorTable(vertex)),
    subtaskCard(detail),
    metricsCard(vertex, context, series),
    lateCard(late, vertex),
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
      { title: "uid", cell: (operator) => operator.uid || h("span", { class: "quiet", title: "Without a uid, its state is found again only as long as the program's graph does not change." }, "none") },
      { title: "Defined at", cell: (operator) => h("code", null, operator["source-line"] || NONE) },
      { title: "Guarantee", cell: (operator) => operator.guarantee || NONE },
    ],
  });
}

function subtaskCard(detail) {
  return card(
    "Subtasks",
    skewLine(detail.skew),
    table({
      caption: "Subtasks",
      rows: detail.subtasks,
      key: (subtask) => subtask.subtask,
      columns: [
        { title: "Subtask", number: true, cell: (subtask) => count(subtask.subtask + 1) },
        { title: "Status", cell: (subtask) => badge(subtask.status) },
        { title: "Load", cell: (subtask) => loadBar(subtask) },
        { title: "Busy", number: true, cell: (subtask) => percent(subtask.busy) },
        { title: "In", number: true, cell: (subtask) => count(subtask["records-in"]) },
        { title: "Out", number: true, cell: (subtask) => count(subtask["records-out"]) },
        { title: "In now", number: true, cell: (subtask) => rate(subtask["records-in-per-second"]) },
        { title: "Bytes in", number: true, cell: (subtask) => bytes(subtask["bytes-in"]) },
        { title: "Bytes out", number: true, cell: (subtask) => bytes(subtask["bytes-out"]) },
        { title: "State", number: true, cell: (subtask) => bytes(subtask["state-size"]) },
        { title: "Watermark", cell: (subtask) => watermark(subtask.watermark) },
        { title: "Executor", cell: (subtask) => subtask.executor || NONE },
        { title: "Attempt", number: true, cell: (subtask) => count(subtask.attempt) },
      ],
    }),
  );
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

function metricsCard(vertex, context, series) {
  const { metricNames, picked, samples } = context.state;
  const pick = (name) => {
    context.state.picked = picked.includes(name) ? picked.filter((one) => one !== name) : [...picked, name].slice(-8);
    context.refresh();
  };
  const sought = (context.state.sought || "").toLowerCase();
  const names = metricNames.filter((name) => name.toLowerCase().includes(sought));
  const history = series.vertices[vertex.id];
  return cardWith(
    "Metrics",
    h("input", {
      type: "search", placeholder: "Find a metric", "aria-label": "Find a metric", value: context.state.sought || "",
      on: { input: (event) => { context.state.sought = event.target.value; context.update(); } },
    }),
    h(
      "div",
      { class: "metrics" },
      h(
        "div",
        { class: "metric-list", role: "group", "aria-label": "Metrics to chart" },
        names.map((name) =>
          h(
            "label",
            { class: "check", key: name },
            h("input", { type: "checkbox", checked: picked.includes(name), on: { change: () => pick(name) } }),
            h("span", null, name),
          ),
        ),
        names.length === 0 ? h("p", { class: "quiet" }, "No metric has this in its name.") : null,
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
          picked
            .filter((name) => !(history && FIRST_METRICS.includes(name)))
            .map((name) =>
              lineChart({
                at: samples.map((one) => one.at),
                label: `${name} (sum of subtasks)`,
                format: (value) => metric(name, value),
                series: [{ name: "sum", values: samples.map((one) => (one.values[name] ? one.values[name].sum : null)) }],
              }),
            ),
        ),
        "The picked metrics",
        () => metricTable(picked, samples),
      ),
    ),
  );
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
        title: kind, number: true, cell: (name) => (last && last.values[name] ? metric(name, last.values[name][kind]) : NONE),
      })),
      { title: "At", cell: () => (last ? clockTime(last.at) : NONE) },
    ],
  });
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
            { title: "Its time", cell: (sample) => watermark(sample.timestamp) },
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
