/**
 * A chart of values: lines or bars over an axis of numbers, times or texts; up to eight series.
 */

import { h, s } from "../elements.js";
import { isNumber, short } from "../format.js";
import { niceStep, path } from "./line_chart.js";

const WIDTH = 760;
const HEIGHT = 260;
const LEFT = 60;
const BOTTOM = 26;
const TOP = 10;
const RIGHT = 12;

/** Return { low, high, step } of an axis that holds all values and zero. */
export function axisOf(values) {
  const known = values.filter(isNumber);
  const low = Math.min(0, ...known);
  const high = Math.max(0, ...known);
  const step = niceStep(high - low || 1);
  return { low: Math.floor(low / step) * step, high: Math.max(Math.ceil(high / step) * step, low === high ? step : -Infinity), step };
}

/** `points` are { x, label, values }; `continuous`: x are numbers and say the place; `names` are those of the series. */
export function valueChart({ points, names, kind, continuous, label }) {
  const { low, high, step } = axisOf(points.flatMap((point) => point.values));
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const inner = WIDTH - LEFT - RIGHT;
  const slot = inner / Math.max(1, points.length);
  const first = points.length === 0 ? 0 : points[0].x;
  const span = points.length < 2 ? 0 : points.at(-1).x - first;
  const byPlace = continuous && kind === "line" && span > 0;
  const x = (index) => (byPlace ? LEFT + ((points[index].x - first) / span) * inner : LEFT + slot * (index + 0.5));
  const grid = [];
  for (let value = low; value <= high + step / 1000; value += step) grid.push(Math.abs(value) < step / 1000 ? 0 : value);
  return h(
    "figure",
    { class: "chart large" },
    h("figcaption", null, label),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label}: a ${kind} chart; the table has the numbers` },
      grid.map((value) =>
        s(
          "g",
          null,
          s("line", { class: value === 0 ? "grid zero" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
          s("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)),
        ),
      ),
      kind === "bar" ? points.flatMap((point, index) => bars(point, index, slot, y)) : names.map((_, series) => line(points, series, x, y)),
      ticks(points, slot, x, byPlace),
    ),
    h(
      "ul",
      { class: "legend" },
      names.map((name, index) => h("li", null, h("span", { class: `swatch series-${index % 8}`, "aria-hidden": "true" }), h("span", null, name))),
    ),
  );
}

function line(points, series, x, y) {
  const values = points.map((point) => point.values[series]);
  const indices = points.map((_, index) => index);
  const alone = values.filter(isNumber).length === 1;
  return alone
    ? values.map((value, index) => (isNumber(value) ? s("circle", { class: `bar series-${series % 8}`, cx: x(index), cy: y(value), r: 3 }) : null))
    : s("path", { class: `series series-${series % 8}`, d: path(indices, values, x, y) });
}

function bars(point, index, slot, y) {
  const width = Math.min(60, (slot * 0.8) / point.values.length);
  const start = LEFT + slot * (index + 0.5) - (width * point.values.length) / 2;
  return point.values.map((value, series) =>
    isNumber(value)
      ? s(
          "rect",
          { class: `bar series-${series % 8}`, x: start + series * width, y: Math.min(y(value), y(0)), width: Math.max(0.5, width - 1), height: Math.max(0.5, Math.abs(y(value) - y(0))) },
          s("title", null, `${point.label}: ${value}`),
        )
      : null,
  );
}

function ticks(points, slot, x, byPlace) {
  if (points.length === 0) return s("text", { class: "axis", x: (LEFT + WIDTH) / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "no rows yet");
  const widest = Math.min(24, Math.max(...points.map((point) => point.label.length)));
  const every = byPlace ? Math.max(1, points.length - 1) : Math.max(1, Math.ceil((widest * 7 + 14) / slot));
  return points.map((point, index) =>
    index % every === 0
      ? s(
          "text",
          { class: "axis", x: x(index), y: HEIGHT - 7, "text-anchor": byPlace ? (index === 0 ? "start" : "end") : "middle" },
          point.label.length > 24 ? `${point.label.slice(0, 23)}…` : point.label,
        )
      : null,
  );
}
