/**
 * Axes that read well: steps of numbers, bytes, durations and times of day, and the lines of a grid. Pure.
 */

import { clockTime, dayOfYear, hourTime, isNumber } from "../format.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Steps of durations and times of a second and more: those of a clock. */
const CLOCK_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
];

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

/** The same for milliseconds: decimal below a second, then those of a clock, then whole days. */
export function niceTimeStep(span, lines = 4) {
  const rough = span / lines;
  if (rough <= SECOND / 2) return niceStep(span, lines);
  return CLOCK_STEPS.find((step) => step >= rough) || niceStep(span / DAY, lines) * DAY;
}

/**
 * Return { low, high, lines } of an axis for values: `lines` are the places of the grid. Amounts begin at zero; times of
 * day (`scale` "instant") have no zero, so their axis holds just the values.
 */
export function axis(values, scale = "number", wanted = 4) {
  const known = values.filter(isNumber);
  const most = Math.max(0, ...known);
  const least = Math.min(0, ...known);
  if (scale === "instant") return known.length === 0 ? { low: 0, high: 1, lines: [] } : instants(Math.min(...known), Math.max(...known), wanted);
  const stepOf = { bytes: niceByteStep, duration: niceTimeStep }[scale] || niceStep;
  const step = stepOf(most - least || (scale === "duration" ? SECOND : 1), wanted);
  const low = Math.floor(least / step + 1e-9) * step;
  const high = Math.max(low + step, Math.ceil(most / step - 1e-9) * step);
  return { low, high, lines: spread(low, high, step) };
}

function instants(least, most, wanted) {
  const step = Math.max(SECOND, niceTimeStep(most - least, wanted));
  const offset = zoneOffset(least);
  const low = Math.floor((least + offset) / step) * step - offset;
  const high = Math.max(low + step, Math.ceil((most + offset) / step) * step - offset);
  return { low, high, lines: spread(low, high, step) };
}

function spread(low, high, step) {
  return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, index) => low + index * step);
}

/**
 * Return [{ at, text }]: round times of the viewer's clock from `first` to `last`, at most about `wanted`, and not nearer
 * to each other than `finest` milliseconds.
 */
export function timeTicks(first, last, wanted = 5, finest = SECOND) {
  if (!(last > first)) return [];
  const step = Math.max(finest, niceTimeStep(last - first, wanted));
  const offset = zoneOffset(first);
  const write = step >= DAY ? dayOfYear : step >= MINUTE ? hourTime : step >= SECOND ? clockTime : exactTime;
  const found = [];
  for (let at = Math.ceil((first + offset) / step) * step - offset; at <= last; at += step) found.push({ at, text: write(at) });
  return found;
}

function exactTime(at) {
  return `${clockTime(at)}.${String(at % SECOND).padStart(3, "0")}`;
}

/** The viewer's clock minus UTC at a moment, in ms. */
function zoneOffset(at) {
  return -new Date(at).getTimezoneOffset() * MINUTE;
}
