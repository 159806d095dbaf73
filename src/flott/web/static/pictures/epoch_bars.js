/**
 * Epochs and checkpoints as bars, one colour per phase. By the clock all are in one strip, with what happened to the job
 * as lines across. From one left edge each has a row, so that short ones can be read and compared.
 */

import { h, s } from "../elements.js";
import { clockTime, duration } from "../format.js";
import { niceTimeStep, timeTicks } from "./axis.js";

/** The phases of an epoch in their order, and what each of them is. */
export const PHASES = [
  ["plan", "plan", "which splits and slices the epoch reads"],
  ["schedule", "schedule", "Spark starts the tasks"],
  ["run", "run", "records are processed"],
  ["ack", "acknowledge", "reports are checked and the checkpoint is written"],
  ["commit", "commit", "sinks make their output visible"],
];

/** The phases of the checkpoint of a pipelined job, whose tasks process records meanwhile. */
export const CHECKPOINT_PHASES = [
  ["align", "align", "barriers go from the sources through all tasks; a task waits for those of all its inputs"],
  ["sync", "snapshot", "tasks take their state aside, and process nothing while they do"],
  ["files", "files", "state files are written beside processing"],
  ["ack", "acknowledge", "reports are checked and the checkpoint is written"],
  ["commit", "commit", "sinks make their output visible"],
];

export function isCheckpoint(epoch) {
  return epoch.mode === "pipelined";
}

/** The phases that these epochs have: of both kinds, if an adaptive job has changed its mode. */
export function phasesOf(epochs) {
  const found = epochs.some(isCheckpoint) ? CHECKPOINT_PHASES : [];
  const others = epochs.length === 0 || epochs.some((epoch) => !isCheckpoint(epoch)) ? PHASES : [];
  const shared = new Set(found.map(([name]) => name));
  return [...others.filter(([name]) => !shared.has(name)), ...(found.length > 0 ? found : others.filter(([name]) => shared.has(name)))];
}

/** Lines of a grid, about. */
const TICKS = 6;
const WIDTH = 1080;
const LEFT = 12;
const RIGHT = 12;
const LANE = 14; // the height of a line of labels above the strip
const LANES = 4;
const STRIP = 34;
const AXIS = 22;
const GAP = 1; // between two phases, so that they are told apart without their colours

/** Events nearer to each other than this have one mark, in units of the picture. */
const NEAR = 7;
const LETTER = 6.6; // the width of a letter of a label, a little more than it is

/** Kinds of events that are marked; the table of events lists all. */
export const MARKED = new Set(["failure", "restart", "rescale", "mode", "restored", "savepoint"]);
const BAD = new Set(["failure"]);

/** The part of time that the picture shows: of all epochs, and of what happened since the first of them. */
export function spanOf(epochs, events) {
  const first = epochs.length > 0 ? Math.min(...epochs.map((epoch) => epoch.start)) : Math.min(...events.map((event) => event.at));
  const moments = [...epochs.map((epoch) => epoch.end), ...events.map((event) => event.at)].filter((at) => at >= first);
  const last = Math.max(first + 1, ...moments);
  return { first, last: last + (last - first) * 0.01 };
}

/**
 * The marks of events: { at, x, text, title, bad, lane }. Events that are near to each other share one; `lane` is the
 * line of the label, -1 if there is room for none. Labels of failures are placed first, and no two overlap.
 */
export function marksOf(events, x) {
  const marks = [];
  for (const event of [...events].sort((one, other) => one.at - other.at)) {
    const last = marks.at(-1);
    if (last !== undefined && x(event.at) - last.x < NEAR) last.events.push(event);
    else marks.push({ at: event.at, x: x(event.at), events: [event] });
  }
  const labelled = marks.map((mark) => {
    const counts = new Map();
    for (const { kind } of mark.events) counts.set(kind, (counts.get(kind) || 0) + 1);
    const text = Array.from(counts, ([kind, count]) => (count > 1 ? `${count} × ${kind}` : kind)).join(", ");
    const width = text.length * LETTER;
    const from = mark.x + 4 + width > WIDTH ? mark.x - 4 - width : mark.x + 4;
    return {
      at: mark.at, x: mark.x, text, from, width, lane: -1,
      bad: mark.events.some((event) => BAD.has(event.kind)),
      title: mark.events.map((event) => `${clockTime(event.at)} ${event.kind}: ${event.text}`).join("\n"),
    };
  });
  const taken = Array.from({ length: LANES }, () => []);
  for (const mark of [...labelled].sort((one, other) => Number(other.bad) - Number(one.bad))) {
    mark.lane = taken.findIndex((others) => others.every((other) => mark.from + mark.width + 6 < other.from || other.from + other.width + 6 < mark.from));
    if (mark.lane >= 0) taken[mark.lane].push(mark);
  }
  return labelled;
}

/**
 * The strip by the clock. `epochs` have start, end, phases in ms; `events` have at, kind, text. A checkpoint of
 * continuous tasks has the time since the one before in front of it.
 */
export function epochStrip(all, events) {
  const epochs = shownOf(all);
  if (epochs.length === 0 && events.length === 0) return null;
  const { first, last } = spanOf(epochs, events);
  const x = (time) => LEFT + ((time - first) / (last - first)) * (WIDTH - LEFT - RIGHT);
  const marks = marksOf(events.filter((event) => event.at >= first), x);
  const top = LANE * (1 + Math.max(-1, ...marks.map((mark) => mark.lane))) + 6;
  const bottom = top + STRIP;
  return picture("Epochs over time", bottom + AXIS, [
    timeTicks(first, last, TICKS, 1).map(({ at, text }) => tick(x(at), top, bottom, text)),
    epochs.map((epoch, index) => stripe(epoch, x, index > 0 && isCheckpoint(epoch) ? epochs[index - 1].end : epoch.start, top)),
    marks.map((mark) =>
      s(
        "g",
        { key: `event ${mark.at}` },
        s("title", null, mark.title),
        s("line", { class: `event-line ${mark.bad ? "bad" : ""}`, x1: mark.x, x2: mark.x, y1: mark.lane < 0 ? top - 6 : mark.lane * LANE + 4, y2: bottom + 4 }),
        mark.lane < 0 ? null : s("text", { class: `event-label ${mark.bad ? "bad" : ""}`, x: mark.from, y: mark.lane * LANE + 11 }, mark.text),
      ),
    ),
  ]);
}

function stripe(epoch, x, since, top) {
  return s(
    "g",
    { key: keyOf(epoch) },
    s("title", null, titleOf(epoch)),
    since < epoch.start ? s("rect", { class: "phase-processing", x: x(since), y: top + STRIP / 2 - 2, width: Math.max(0, x(epoch.start) - x(since)), height: 4 }) : null,
    phases(epoch, x, top, STRIP),
    failedFrame(epoch, x, top, STRIP),
  );
}

const ROW = 20;
const NAMES = 136;
const TIMES = 76;

/**
 * All from one left edge, as long as each took, the newest on top. If a few took much longer than the others, their bars
 * are cut, so that the others can be read; the time behind a bar is always the whole.
 */
export function epochRows(all) {
  const epochs = shownOf(all);
  if (epochs.length === 0) return null;
  const limit = limitOf(epochs.map((epoch) => epoch.end - epoch.start));
  const x = (passed) => NAMES + Math.min(1, passed / limit) * (WIDTH - NAMES - TIMES);
  const height = AXIS + epochs.length * ROW;
  const step = niceTimeStep(limit, TICKS);
  const ticks = [];
  for (let at = 0; at <= limit; at += step) ticks.push(s("g", null, s("line", { class: "grid", x1: x(at), x2: x(at), y1: AXIS - 4, y2: height }), s("text", { class: "axis", x: x(at), y: 12, "text-anchor": "middle" }, duration(at))));
  return picture("Epochs from their start", height, [ticks, [...epochs].reverse().map((epoch, index) => row(epoch, x, limit, AXIS + index * ROW))]);
}

/** The time at the end of the scale: of the longest, or less if few are much longer than the others. */
export function limitOf(durations) {
  const ordered = [...durations].sort((one, other) => one - other);
  const longest = Math.max(1, ordered.at(-1));
  const usual = Math.max(1, ordered[Math.floor((ordered.length - 1) * 0.8)]);
  return longest > 3 * usual ? 1.5 * usual : longest;
}

function row(epoch, x, limit, y) {
  const took = epoch.end - epoch.start;
  const cut = took > limit;
  return s(
    "g",
    { key: keyOf(epoch) },
    s("title", null, titleOf(epoch)),
    s("text", { class: "axis", x: NAMES - 8, y: y + ROW - 6, "text-anchor": "end" }, epoch.attempt > 0 ? `${epoch.epoch}·${epoch.attempt}` : String(epoch.epoch)),
    s("text", { class: "axis", x: LEFT, y: y + ROW - 6 }, clockTime(epoch.start)),
    phases(epoch, (at) => x(at - epoch.start), y + 2, ROW - 5),
    failedFrame(epoch, (at) => x(at - epoch.start), y + 2, ROW - 5),
    cut ? s("path", { class: "cut", d: `M${x(limit) - 9} ${y + ROW - 2}l4 -${ROW - 2}m5 0l-4 ${ROW - 2}` }) : null,
    s("text", { class: epoch.status === "FAILED" ? "axis failed" : "axis", x: x(took) + 6, y: y + ROW - 6 }, duration(took)),
  );
}

function shownOf(all) {
  return all.filter((epoch) => epoch.start > 0 && epoch.end >= epoch.start);
}

function keyOf(epoch) {
  return `${epoch.epoch}.${epoch.attempt}.${epoch.start}`;
}

function titleOf(epoch) {
  const name = `${isCheckpoint(epoch) ? "checkpoint" : "epoch"} ${epoch.epoch}${epoch.attempt > 0 ? `, attempt ${epoch.attempt}` : ""}`;
  const spent = phasesOf([epoch]).filter(([phase]) => epoch.phases[phase] > 0).map(([phase, text]) => `${text} ${duration(epoch.phases[phase])}`);
  const failure = epoch.status === "FAILED" ? [`failed: ${epoch.failure || ""}`] : [];
  return [`${name}: ${duration(epoch.end - epoch.start)} from ${clockTime(epoch.start)}`, ...spent, ...failure].join("\n");
}

/** The phases of one epoch, one behind the other; a phase that took any time is at least one unit wide. */
function phases(epoch, x, y, height) {
  let at = epoch.start;
  return (isCheckpoint(epoch) ? CHECKPOINT_PHASES : PHASES).map(([name]) => {
    const spent = epoch.phases[name] || 0;
    const from = x(at);
    at += spent;
    const width = Math.max(0, x(at) - from);
    return s("rect", { class: `phase-${name}`, x: from, y, width: spent > 0 ? Math.max(0.8, width > 3 * GAP ? width - GAP : width) : 0, height });
  });
}

function failedFrame(epoch, x, y, height) {
  return epoch.status === "FAILED" ? s("rect", { class: "epoch-failed", x: x(epoch.start), y, width: Math.max(3, x(epoch.end) - x(epoch.start)), height }) : null;
}

function tick(x, top, bottom, text) {
  return s("g", null, s("line", { class: "grid", x1: x, x2: x, y1: top - 4, y2: bottom + 4 }), s("text", { class: "axis", x, y: bottom + 18, "text-anchor": "middle" }, text));
}

function picture(name, height, content) {
  return h(
    "div",
    { class: "timeline-scroll", tabindex: "0", role: "region", "aria-label": name },
    s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${name}; the table has the numbers` }, content),
  );
}
