/**
 * A line chart over time: up to eight series with one unit, a grid, and a legend that names each with its last value.
 */

import { h, s } from "../elements.js";
import { bytes, clockTime, isNumber } from "../format.js";

const WIDTH = 480;
const HEIGHT = 150;
const LEFT = 56;
const BOTTOM = 22;
const TOP = 10;

/** Steps between two lines of the grid that read well: 1, 2 or 5 times a power of ten. */
export function niceStep(span, lines = 4) {
  const rough = Math.max(span, 1e-9) / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) || rough;
}

/** The same for bytes: steps of whole KiB, MiB and so on. */
export function niceByteStep(span, lines = 4) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, span / lines)) / Math.log(1024)));
  return Math.max(1, niceStep(span / unit, lines)) * unit;
}

/** `series` are { name, values }; `at` are times in ms; `format` writes a value with its unit. */
export function lineChart({ at, series, format, label }) {
  const values = series.flatMap((one) => one.values).filter(isNumber);
  const step = (format === bytes ? niceByteStep : niceStep)(Math.max(0, ...values));
  const top = Math.max(step, Math.ceil(Math.max(0, ...values) / step) * step);
  const first = at[0] || 0;
  const last = at.at(-1) || 1;
  const x = (time) => LEFT + (last === first ? 0 : ((time - first) / (last - first)) * (WIDTH - LEFT - 8));
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const grid = [];
  for (let value = 0; value <= top * 1.0001; value += step) grid.push(value);
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", null, label),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label}: a chart over time; the table has the numbers` },
      grid.map((value) =>
        s(
          "g",
          null,
          s("line", { class: "grid", x1: LEFT, x2: WIDTH - 8, y1: y(value), y2: y(value) }),
          s("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
        ),
      ),
      at.length > 1
        ? [first, last].map((time, index) =>
            s("text", { class: "axis", x: x(time), y: HEIGHT - 5, "text-anchor": index === 0 ? "start" : "end" }, clockTime(time)),
          )
        : s("text", { class: "axis", x: (LEFT + WIDTH) / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "the first values come in a few seconds"),
      series.map((one, index) => s("path", { class: `series series-${index % 8}`, d: path(at, one.values, x, y) })),
    ),
    h(
      "ul",
      { class: "legend" },
      series.map((one, index) =>
        h(
          "li",
          null,
          h("span", { class: `swatch series-${index % 8}`, "aria-hidden": "true" }),
          h("span", { class: "name" }, one.name),
          h("span", { class: "number" }, format(one.values.filter(isNumber).at(-1))),
        ),
      ),
    ),
  );
}

/** A line with gaps where values are not known. */
export function path(at, values, x, y) {
  let drawing = false;
  const commands = [];
  for (const [index, value] of values.entries()) {
    if (!isNumber(value)) drawing = false;
    else {
      commands.push(`${drawing ? "L" : "M"}${x(at[index]).toFixed(1)} ${y(value).toFixed(1)}`);
      drawing = true;
    }
  }
  return commands.join("");
}
