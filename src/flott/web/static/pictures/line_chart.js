/**
 * A line chart over time: up to eight series with one unit, and a grid. The caption has the last value; with several
 * series a legend has one for each. With the pointer, or the arrow keys, the values of any moment are shown there.
 */

import { h, morph, s } from "../elements.js";
import { bytes, clockTime, duration, isNumber, signedDuration } from "../format.js";
import { axis, timeTicks } from "./axis.js";

export { niceByteStep, niceStep } from "./axis.js";

const HEIGHT = 160;
/** The picture is scaled to its place: with fewer units, texts are larger on a narrow screen. */
const UNITS = 480;
const NARROW_UNITS = 340;
const NARROW = 760;
const RIGHT = 12;
const BOTTOM = 22;
const TOP = 10;
/** The width of a character of an axis, in the units of the picture. */
const CHARACTER = 6.4;

/** The chart that is pointed at, by its label, and the index of the moment. One reader points at one place. */
let pointed = { label: null, index: -1 };

/**
 * `series` are { name, values }; `at` are times in ms; `format` writes a value with its unit; `scale` says how the axis is
 * divided (axis.js); `empty` is the text of a chart without values.
 */
export function lineChart(chart) {
  const { at, series, format, label, empty = "The first values come in a few seconds." } = chart;
  const scale = chart.scale || scaleOf(format);
  const width = window.innerWidth <= NARROW ? NARROW_UNITS : UNITS;
  const { low, high, lines } = axis(series.flatMap((one) => one.values), scale);
  const first = at[0] || 0;
  const last = at.at(-1) || 1;
  const texts = lines.map((value) => (scale === "instant" ? clockTime(value) : format(value)));
  const left = Math.max(34, 10 + CHARACTER * Math.max(0, ...texts.map((text) => text.length)));
  const x = (time) => left + (last === first ? 0 : ((time - first) / (last - first)) * (width - left - RIGHT));
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const isPointed = pointed.label === label && pointed.index >= 0 && pointed.index < at.length;
  const index = isPointed ? pointed.index : null;
  const some = at.length > 1 && series.some((one) => one.values.some(isNumber));
  const valueOf = (one) => (index === null ? one.values.filter(isNumber).at(-1) : one.values[index]);
  const point = (event, chosen) => {
    pointed = chosen === null ? { label: null, index: -1 } : { label, index: chosen };
    const figure = event.currentTarget.closest("figure");
    morph(figure, lineChart(chart));
  };
  const follow = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    point(event, nearest(at, x, ((event.clientX - box.left) / box.width) * width));
  };
  const step = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -at.length, End: at.length }[event.key];
    if (by === undefined || !some) return;
    event.preventDefault();
    point(event, Math.max(0, Math.min(at.length - 1, (index ?? at.length) + by)));
  };
  const leave = (event) => pointed.label === label && point(event, null);
  return h(
    "figure",
    { class: "chart" },
    h(
      "figcaption",
      null,
      h("span", null, label),
      h("span", { class: "reading", "aria-live": "polite" }, some ? reading(series, index, at, format, valueOf) : ""),
    ),
    s(
      "svg",
      {
        viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", tabindex: some ? "0" : null,
        "aria-label": `${label}: a chart over time. Arrow keys read single values; the table has all.`,
        on: some ? { pointermove: follow, pointerleave: leave, keydown: step, blur: leave } : {},
      },
      some ? null : s("text", { class: "axis", x: (left + width) / 2, y: HEIGHT / 2, "text-anchor": "middle" }, empty),
      some ? lines.map((value, line) => gridLine(texts[line], left, width, y(value))) : null,
      some ? ticks(first, last, width, x) : null,
      some ? series.map((one, number) => s("path", { class: `series series-${number % 8}`, d: path(at, one.values, x, y) })) : null,
      some && index !== null ? cursor(series, index, x(at[index]), y) : null,
    ),
    series.length > 1
      ? h(
          "ul",
          { class: "legend" },
          series.map((one, number) =>
            h(
              "li",
              null,
              h("span", { class: `swatch series-${number % 8}`, "aria-hidden": "true" }),
              h("span", { class: "name" }, one.name),
              h("span", { class: "number" }, format(valueOf(one))),
            ),
          ),
        )
      : null,
  );
}

function scaleOf(format) {
  if (format === bytes) return "bytes";
  return format === duration || format === signedDuration ? "duration" : "number";
}

/** What the caption says: the value of the only series, and the time that is pointed at. */
function reading(series, index, at, format, valueOf) {
  const value = series.length === 1 ? format(valueOf(series[0])) : "";
  return [index === null ? "" : clockTime(at[index]), value].filter((text) => text !== "").join("  ");
}

function gridLine(text, left, width, y) {
  return s(
    "g",
    null,
    s("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y, y2: y }),
    s("text", { class: "axis", x: left - 6, y: y + 4, "text-anchor": "end" }, text),
  );
}

function ticks(first, last, width, x) {
  return timeTicks(first, last, width === UNITS ? 5 : 4).map(({ at, text }) => {
    const half = (text.length * CHARACTER) / 2;
    const place = x(at);
    return s(
      "g",
      null,
      s("line", { class: "grid", x1: place, x2: place, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
      s("text", { class: "axis", x: Math.min(place, width - half), y: HEIGHT - 5, "text-anchor": "middle" }, text),
    );
  });
}

function cursor(series, index, place, y) {
  return s(
    "g",
    { class: "cursor" },
    s("line", { x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM }),
    series.map((one, number) =>
      isNumber(one.values[index]) ? s("circle", { class: `bar series-${number % 8}`, cx: place, cy: y(one.values[index]), r: 3.5 }) : null,
    ),
  );
}

/** The index of the moment that is drawn closest to a place. */
export function nearest(at, x, place) {
  let found = 0;
  for (const index of at.keys()) if (Math.abs(x(at[index]) - place) < Math.abs(x(at[found]) - place)) found = index;
  return found;
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
