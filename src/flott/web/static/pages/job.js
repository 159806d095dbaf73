/**
 * Job: its graph with live numbers; the chosen vertex with its subtasks, accumulators, late records and metrics.
 */

import { h } from "../elements.js";
import { NONE, bytes, clockTime, count, duration, isNumber, percent, rate, shortId, signedDuration, watermark } from "../format.js";
import { SERIES_STEP, rarely } from "../live.js";
import { ENDED, button, card, cardWith, pictured, table } from "../parts.js";
import { graph, loadBar, strategy } from "../pictures/graph.js";
import { lineChart } from "../pictures/line_chart.js";
import { get } from "../rest.js";
import { jobPage, rescale } from "./job_frame.js";
import { loadVertex, vertexDetail } from "./vertex.js";

export default jobPage({ tab: "", load, view });

async function load(context, signal, path) {
  const chosen = context.query.vertex || null;
  const [series, vertex] = await Promise.all([
    rarely(context.state, `${path}/flott/series`, SERIES_STEP, (series) => get(series, { signal })),
    chosen === null ? null : loadVertex(context, signal, path, chosen),
  ]);
  return { series: { ...series.series, vertices: series.vertices }, vertex };
}

function view({ series, vertex }, context, job) {
  // The vertex that the data is of: the one of the address is there with the next answer.
  const chosen = (vertex && job.vertices.find((one) => one.id === vertex.id)) || null;
  const open = (id) => context.go({ vertex: id === context.query.vertex ? null : id });
  const picture = graph({ vertices: job.vertices, edges: job.edges, chosen: chosen && chosen.id, open });
  return h(
    "div",
    { class: "stack" },
    cardWith("Graph", legend(), pictured(picture, "The graph", () => h("div", { class: "stack" }, vertexTable(job, open), edgeTable(job)))),
    chosen === null
      ? charts(series, job)
      : h("div", { class: "stack", key: chosen.id }, vertexHead(chosen, job, context), vertexDetail(vertex, chosen, context, job, series)),
  );
}

function legend() {
  return h(
    "ul",
    { class: "legend", "aria-label": "Colours" },
    [["busy", "busy"], ["backpressured", "back-pressured"], ["idle", "idle"]].map(([name, text]) =>
      h("li", null, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text),
    ),
  );
}

function vertexHead(vertex, job, context) {
  return h(
    "div",
    { class: "title" },
    h("h2", { class: "large" }, vertex.operators.map((operator) => operator.name).join(" → ")),
    h(
      "div",
      { class: "row" },
      job.status === "RUNNING" ? button("Rescale this vertex", () => rescale(job, vertex, context)) : null,
      button("Close", () => context.go({ vertex: null })),
    ),
  );
}

/** What the picture shows, and more, as numbers. */
function vertexTable(job, open) {
  return table({
    caption: "Vertices",
    rows: job.vertices,
    key: (vertex) => vertex.id,
    columns: [
      {
        title: "Vertex", wide: true,
        cell: (vertex) => h("button", { class: "as-link", type: "button", on: { click: () => open(vertex.id) } }, vertex.name),
      },
      { title: "Inputs", cell: (vertex) => inputs(job, vertex) },
      { title: "Subtasks", number: true, cell: (vertex) => count(vertex.parallelism) },
      { title: "Load", cell: (vertex) => loadBar(vertex) },
      { title: "Busy", number: true, cell: (vertex) => percent(vertex.busy) },
      { title: "Busiest subtask", number: true, cell: (vertex) => percent(vertex.busiest) },
      { title: "In", number: true, cell: (vertex) => count(vertex["records-in"]) },
      { title: "Out", number: true, cell: (vertex) => count(vertex["records-out"]) },
      { title: "Bytes in", number: true, cell: (vertex) => bytes(vertex["bytes-in"]) },
      { title: "Bytes out", number: true, cell: (vertex) => bytes(vertex["bytes-out"]) },
      { title: "State", number: true, cell: (vertex) => bytes(vertex["state-size"]) },
      { title: "Watermark", cell: (vertex) => watermark(vertex.watermark) },
      { title: "Late", number: true, cell: (vertex) => count(vertex.late) },
      { title: "Skew", number: true, hint: "records of the largest subtask against the mean", cell: (vertex) => skew(vertex.skew) },
    ],
  });
}

function edgeTable(job) {
  const names = new Map(job.vertices.map((one) => [one.id, one.name]));
  return table({
    caption: "Edges",
    rows: job.edges,
    key: (edge) => job.edges.indexOf(edge),
    empty: "The job has a single vertex.",
    columns: [
      { title: "From", wide: true, cell: (edge) => names.get(edge.source) || shortId(edge.source) },
      { title: "To", wide: true, cell: (edge) => names.get(edge.target) || shortId(edge.target) },
      { title: "Distributed by", cell: (edge) => h("span", { title: strategy(edge).meaning }, strategy(edge).text) },
      { title: "Records", number: true, cell: (edge) => count(edge.records) },
      { title: "Bytes", number: true, hint: "between tasks; records that stay in a process are not encoded", cell: (edge) => bytes(edge.bytes) },
      { title: "Records now", number: true, cell: (edge) => rate(edge["records-per-second"]) },
      { title: "Bytes now", number: true, cell: (edge) => (isNumber(edge["bytes-per-second"]) ? `${bytes(edge["bytes-per-second"])}/s` : NONE) },
    ],
  });
}

function skew(found) {
  return found && isNumber(found.records) ? `${found.records.toFixed(1)}×` : NONE;
}

function inputs(job, vertex) {
  const names = new Map(job.vertices.map((one) => [one.id, one.name]));
  const edges = job.edges.filter((edge) => edge.target === vertex.id);
  return edges.map((edge) => `${names.get(edge.source) || shortId(edge.source)} (${strategy(edge).text})`).join(", ") || NONE;
}

/** The last ten minutes of the whole job. */
function charts(series, job) {
  if (ENDED.has(job.status) && series.at.length < 2) {
    return card("The last minutes", h("p", { class: "empty" }, "The numbers of the job's last minutes are not kept any more: it has ended."));
  }
  const columns = [
    ["records-per-second", "Records read", rate],
    ["watermark-lag", "Watermark lag", signedDuration],
    ["busy", "Busy time of the busiest vertex", percent],
    ["checkpoint-age", "Checkpoint age", duration],
  ];
  return card(
    "The last minutes",
    pictured(
      h(
        "div",
        { class: "charts" },
        columns.map(([name, label, format]) => lineChart({ at: series.at, series: [{ name: label, values: series[name] }], format, label })),
      ),
      "The charts",
      () =>
        table({
          caption: "The last minutes",
          rows: series.at.map((at, index) => ({ at, index })).reverse(),
          key: (row) => row.at,
          columns: [
            { title: "Time", cell: (row) => clockTime(row.at) },
            ...columns.map(([name, label, format]) => ({ title: label, number: true, cell: (row) => format(series[name][row.index]) })),
          ],
        }),
    ),
  );
}
