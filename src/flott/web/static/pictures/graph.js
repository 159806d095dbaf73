/**
 * The graph of a job: vertices as boxes with their chains, edges with how records are distributed and how many flow.
 *
 * Boxes are buttons, so that the keyboard reaches them; edges are an SVG behind them.
 */

import { h, s } from "../elements.js";
import { percent, rate } from "../format.js";
import { layout } from "../layout.js";

const WIDTH = 200;
const LINE = 20;
const MAX_LINES = 6;

/** `vertices` and `edges` as in /jobs/:jobid/flott/live; `open(id)` is called when a vertex is chosen. */
export function graph({ vertices, edges, chosen, open }) {
  const boxes = vertices.map((vertex) => ({ id: vertex.id, width: WIDTH, height: heightOf(vertex) }));
  const places = layout(boxes, edges.map((edge, index) => ({ ...edge, key: `${edge.source}-${edge.target}-${index}` })));
  const fed = new Set(edges.map((edge) => edge.target));
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
        places.edges.map(line),
      ),
      places.edges.map(label),
      vertices.map((vertex) => box(vertex, places.nodes.get(vertex.id), vertex.id === chosen, fed.has(vertex.id), open)),
    ),
  );
}

function heightOf(vertex) {
  return 74 + LINE * Math.min(MAX_LINES, Math.max(1, vertex.operators.length));
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

function line(edge) {
  const bend = Math.max(40, (edge.to.x - edge.from.x) / 2);
  const path = `M${edge.from.x} ${edge.from.y} C${edge.from.x + bend} ${edge.from.y} ${edge.to.x - bend} ${edge.to.y} ${edge.to.x - 2} ${edge.to.y}`;
  return s("path", { key: edge.key, class: "edge", d: path, "marker-end": "url(#arrow)" });
}

function label(edge) {
  const middle = { x: (edge.from.x + edge.to.x) / 2, y: (edge.from.y + edge.to.y) / 2 };
  return h(
    "div",
    { key: edge.key, class: "edge-label", css: { left: `${middle.x}px`, top: `${middle.y}px` } },
    h("span", { class: "strategy" }, String(edge["ship-strategy"]).toLowerCase()),
    h("span", { class: "flow" }, edge["records-per-second"] === null ? " " : rate(edge["records-per-second"])),
  );
}

function box(vertex, place, isChosen, hasInputs, open) {
  const hidden = vertex.operators.length - MAX_LINES;
  const shown = hidden > 0 ? vertex.operators.slice(0, MAX_LINES - 1) : vertex.operators;
  const state = load(vertex);
  return h(
    "button",
    {
      key: vertex.id,
      type: "button",
      class: `vertex ${state}`,
      "aria-pressed": String(isChosen),
      "aria-label": `${vertex.name}, ${vertex.parallelism} subtasks, ${describe(vertex)}`,
      css: { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${place.height}px` },
      on: { click: () => open(vertex.id) },
    },
    h("span", { class: "vertex-head" }, h("span", { class: "parallelism" }, `×${vertex.parallelism}`), h("span", { class: "load" }, describe(vertex))),
    h(
      "span",
      { class: "chain" },
      shown.map((operator) => h("span", { class: "operator", title: operator.name }, operator.name)),
      hidden > 0 ? h("span", { class: "operator more" }, `and ${hidden + 1} more`) : null,
    ),
    loadBar(vertex),
    h(
      "span",
      { class: "in-out" },
      h("span", { title: "records in" }, hasInputs ? `in ${rate(vertex["records-in-per-second"])}` : "source"),
      h("span", { title: "records out" }, `out ${rate(vertex["records-out-per-second"])}`),
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
  return `${percent(vertex.busy)} busy`;
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
