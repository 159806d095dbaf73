/**
 * The path of event time, from the splits of the sources on the left to the sinks on the right. Each box is a place with
 * its watermark; the line from what holds event time back to the sinks is marked.
 */

import { h, s } from "../elements.js";
import { age, duration, exactWatermark, lagOf } from "../format.js";
import { layout } from "../layout.js";
import { tag } from "../parts.js";

const WIDTH = 206;
const HEIGHT = 78;
/** The scale in the boxes is at least so long, in ms: what is shorter is chance. */
const SHORTEST_SCALE = 1000;

/**
 * The places of a report as a graph: { nodes: Map id → place, edges: [{ source, target, held }] }. A report is a tree
 * from the sinks up, in which a place that feeds several others is met again. `held` edges lead from a place that holds
 * event time back towards a sink.
 */
export function pathOf(places) {
  const nodes = new Map();
  const edges = new Map();
  const visit = (place, target) => {
    const id = place.id || place.name;
    if (!nodes.has(id)) nodes.set(id, { ...place, id, inputs: undefined });
    if (target !== null) edges.set(`${id} ${target}`, { source: id, target });
    for (const input of place.inputs) visit(input, id);
  };
  for (const place of places) visit(place, null);
  const inputs = new Map();
  for (const edge of edges.values()) inputs.set(edge.target, [...(inputs.get(edge.target) || []), edge.source]);
  const known = new Map();
  const held = (id) => {
    if (!known.has(id)) {
      known.set(id, nodes.get(id).holds);
      known.set(id, nodes.get(id).holds || (inputs.get(id) || []).some(held));
    }
    return known.get(id);
  };
  return { nodes, edges: Array.from(edges.values(), (edge) => ({ ...edge, held: held(edge.source) })) };
}

/** The slowest and the furthest of the places that have a time, and the length of the scale between them. */
export function scaleOf(places) {
  const times = places.map((place) => place.watermark).filter(isTime);
  if (times.length === 0) return null;
  const first = Math.min(...times);
  const last = Math.max(...times);
  return { first, span: last - first, length: Math.max(SHORTEST_SCALE, last - first) };
}

function isTime(watermark) {
  return lagOf(watermark, 0) !== null;
}

export function timePath(places, now) {
  const { nodes, edges } = pathOf(places);
  const scale = scaleOf([...nodes.values()]);
  const drawn = layout(Array.from(nodes.keys(), (id) => ({ id, width: WIDTH, height: HEIGHT })), edges, { gapX: 34, gapY: 18 });
  const [marked, others] = [edges.filter((edge) => edge.held), edges.filter((edge) => !edge.held)];
  return h(
    "div",
    { class: "graph timeline-scroll", tabindex: "0", role: "region", "aria-label": "The path of event time; the table has the same" },
    h(
      "div",
      { class: "graph-canvas", css: { width: `${drawn.width}px`, height: `${drawn.height}px` } },
      s(
        "svg",
        { width: drawn.width, height: drawn.height, "aria-hidden": "true" },
        [...others, ...marked].map((edge) => line(drawn.nodes.get(edge.source), drawn.nodes.get(edge.target), edge.held)),
      ),
      Array.from(nodes.values(), (place) => box(place, drawn.nodes.get(place.id), scale, now)),
    ),
  );
}

function line(from, to, held) {
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x - 7, to.y + to.height / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return s(
    "g",
    { class: held ? "held" : null },
    s("path", { class: "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }),
    s("path", { class: "arrow", d: `M${x2 + 7} ${y2}l-9 -5v10z` }),
  );
}

function box(place, at, scale, now) {
  const ahead = scale !== null && isTime(place.watermark) ? place.watermark - scale.first : null;
  const told = [
    place.holds ? tag("holds it back", "warn") : null,
    place.idle ? tag("idle") : null,
    place.paused ? tag("paused") : null,
    !place.holds && ahead !== null && ahead > 0 ? h("span", { class: "quiet" }, `${duration(ahead)} ahead`) : null,
    place.since === null || place.idle ? null : h("span", { class: "quiet" }, `unmoved for ${age(now - place.since)}`),
  ];
  return h(
    "div",
    { key: place.id, class: place.holds ? "time-place holds" : "time-place", css: { left: `${at.x}px`, top: `${at.y}px`, width: `${at.width}px`, height: `${at.height}px` } },
    h("span", { class: "name", title: place.name }, place.name),
    h("span", null, exactWatermark(place.watermark)),
    h("span", { class: "told" }, told),
    ahead === null ? null : h("span", { class: "scale", "aria-hidden": "true" }, h("span", { css: { left: `${(ahead / scale.length) * 100}%` } })),
  );
}
