/**
 * The graph of a job: vertices as boxes with their chains, edges with how records are distributed and how many flow. A
 * plan is drawn the same way, without numbers.
 *
 * Boxes are buttons, so that the keyboard reaches them, if something opens; edges are an SVG behind them.
 */

import { h, s } from "../elements.js";
import { bytes, count, isNumber, percent, rate } from "../format.js";
import { layout } from "../layout.js";

const WIDTH = 200;
const LINE = 20;
const MAX_LINES = 6;

/** How records are distributed, as a sentence. */
const STRATEGIES = {
  FORWARD: "each subtask sends to the one with the same number",
  HASH: "by key: all records of a key go to the same subtask",
  REBALANCE: "to all subtasks in turn",
  RESCALE: "in turn to the subtasks that are near",
  SHUFFLE: "to a subtask chosen at random",
  BROADCAST: "each record goes to all subtasks",
  GLOBAL: "all records go to the first subtask",
  CUSTOM: "by a function of the program",
};

/** Return how records are distributed: the name in small letters, and the sentence. */
export function strategy(edge) {
  const name = String(edge["ship-strategy"]);
  return { text: name.toLowerCase(), meaning: STRATEGIES[name] || null };
}

/**
 * `vertices` and `edges` as in /jobs/:jobid/flott/live; `open(id)` is called when a vertex is chosen. Vertices without
 * numbers are those of a plan, which nothing can be opened of.
 */
export function graph({ vertices, edges, chosen, open }) {
  const boxes = vertices.map((vertex) => ({ id: vertex.id, width: WIDTH, height: heightOf(vertex) }));
  const places = layout(boxes, edges.map((edge, index) => ({ ...edge, key: `${edge.source}-${edge.target}-${index}` })));
  const fed = new Set(edges.map((edge) => edge.target));
  const feeding = new Set(edges.map((edge) => edge.source));
  return h(
    "div",
    { class: "graph scroll", tabindex: "0", role: "region", "aria-label": "The graph of the job" },
    h(
      "div",
      { class: "graph-canvas", css: { width: `${places.width}px`, height: `${places.height}px` } },
      s(
        "svg",
        { width: places.width, height: places.height, viewBox: `0 0 ${places.width} ${places.height}`, "aria-hidden": "true" },
        arrowHead(),
        places.edges.map((edge) => s("path", { key: edge.key, class: "edge", d: path(edge), "marker-end": "url(#arrow)" })),
      ),
      places.edges.map(label),
      vertices.map((vertex) =>
        isPlanned(vertex)
          ? plannedBox(vertex, places.nodes.get(vertex.id))
          : box(vertex, places.nodes.get(vertex.id), vertex.id === chosen, { reads: fed.has(vertex.id), sends: feeding.has(vertex.id) }, open),
      ),
    ),
  );
}

/** A vertex of a plan has no numbers yet. */
function isPlanned(vertex) {
  return !isNumber(vertex["records-in-per-second"]);
}

function heightOf(vertex) {
  return (isPlanned(vertex) ? 44 : 74) + LINE * Math.min(MAX_LINES, Math.max(1, vertex.operators.length));
}

function arrowHead() {
  return s(
    "defs",
    null,
    s(
      "marker",
      { id: "arrow", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto" },
      s("path", { d: "M0 0 L8 4 L0 8 Z", class: "arrow" }),
    ),
  );
}

/** The way of an edge: curves between layers, level lines where it passes one. */
export function path(edge) {
  let at = edge.from;
  const commands = [`M${at.x} ${at.y}`];
  const curve = (x, y) => {
    const bend = x > at.x ? (x - at.x) / 2 : 40;
    commands.push(`C${at.x + bend} ${at.y} ${x - bend} ${y} ${x} ${y}`);
  };
  for (const { left, right, y } of edge.bends) {
    curve(left, y);
    commands.push(`L${right} ${y}`);
    at = { x: right, y };
  }
  curve(edge.to.x - 2, edge.to.y);
  return commands.join(" ");
}

function label(edge) {
  const { text, meaning } = strategy(edge);
  return h(
    "div",
    { key: edge.key, class: "edge-label", css: { left: `${edge.label.x}px`, top: `${edge.label.y}px` } },
    h("span", { class: "strategy", title: meaning }, text),
    isNumber(edge["records-per-second"]) ? h("span", { class: "flow", title: crossed(edge) }, rate(edge["records-per-second"])) : null,
  );
}

function crossed(edge) {
  return edge.records === null ? null : `${count(edge.records)} records, ${bytes(edge.bytes)} since the job's process has started`;
}

function placed(place) {
  return { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${place.height}px` };
}

function chain(vertex) {
  const hidden = vertex.operators.length - MAX_LINES;
  const shown = hidden > 0 ? vertex.operators.slice(0, MAX_LINES - 1) : vertex.operators;
  return h(
    "span",
    { class: "chain" },
    shown.map((operator) => h("span", { class: "operator", title: operator.name }, operator.name)),
    hidden > 0 ? h("span", { class: "operator more" }, `and ${hidden + 1} more`) : null,
  );
}

function plannedBox(vertex, place) {
  return h(
    "div",
    { key: vertex.id, class: "vertex planned", css: placed(place) },
    h("span", { class: "vertex-head" }, h("span", { class: "parallelism" }, `×${vertex.parallelism}`), h("span", null, String(vertex.status).toLowerCase())),
    chain(vertex),
  );
}

function box(vertex, place, isChosen, { reads, sends }, open) {
  return h(
    "button",
    {
      key: vertex.id,
      type: "button",
      class: `vertex ${load(vertex)}`,
      "aria-pressed": String(isChosen),
      "aria-label": `${vertex.name}, ${vertex.parallelism} subtasks, ${describe(vertex)}`,
      css: placed(place),
      on: { click: () => open(vertex.id) },
    },
    h("span", { class: "vertex-head" }, h("span", { class: "parallelism" }, `×${vertex.parallelism}`), h("span", { class: "load" }, describe(vertex))),
    chain(vertex),
    loadBar(vertex),
    h(
      "span",
      { class: "in-out" },
      h("span", { title: "records in" }, reads ? `in ${rate(vertex["records-in-per-second"])}` : ""),
      h("span", { title: "records out" }, sends || !reads ? `out ${rate(vertex["records-out-per-second"])}` : ""),
    ),
  );
}

/** What a vertex mostly does: the word that its colour means. */
export function load(vertex) {
  if (vertex.status === "FAILED") return "failed";
  if (vertex.status !== "RUNNING") return "quiet";
  if (vertex.backpressured >= 0.5) return "backpressured";
  return vertex.busy >= 0.5 ? "busy" : "idle";
}

export function describe(vertex) {
  const state = load(vertex);
  if (state === "failed" || state === "quiet") return String(vertex.status).toLowerCase();
  if (state === "backpressured") return `back-pressured ${percent(vertex.backpressured)}`;
  return `busy ${percent(vertex.busy)}`;
}

/** The shares of busy, back-pressured and idle time as one bar. */
export function loadBar(shares) {
  const part = (name, value) => h("span", { class: `share ${name}`, css: { width: `${Math.max(0, Math.min(1, value || 0)) * 100}%` } });
  const text = `busy ${percent(shares.busy)}, back-pressured ${percent(shares.backpressured)}, idle ${percent(shares.idle)}`;
  return h(
    "span",
    { class: "load-bar", role: "img", "aria-label": text, title: text },
    part("busy", shares.busy),
    part("backpressured", shares.backpressured),
    part("idle", shares.idle),
  );
}
