/**
 * Epochs as bars over time: one row per epoch, one colour per phase, failures and rescales as lines across.
 */

import { h, s } from "../elements.js";
import { clockTime, duration } from "../format.js";
import { niceStep } from "./line_chart.js";

/** The phases of an epoch in their order, and what each of them is. */
export const PHASES = [
  ["plan", "plan", "which splits and slices the epoch reads"],
  ["schedule", "schedule", "Spark starts the tasks"],
  ["run", "run", "records are processed"],
  ["ack", "acknowledge", "reports are checked and the checkpoint is written"],
  ["commit", "commit", "sinks make their output visible"],
];

const ROW = 18;
const LEFT = 64;
const RIGHT = 16;
const TOP = 26;
const WIDTH = 1080;
const BAD = new Set(["failure", "process-died"]);

/** `epochs` have start, end, phases in ms; `events` have at, kind, text. The newest epoch is the first row. */
export function epochBars(all, events) {
  const epochs = all.filter((epoch) => epoch.start > 0 && epoch.end >= epoch.start);
  if (epochs.length === 0) return h("p", { class: "empty" }, "No epoch has ended yet.");
  const first = Math.min(...epochs.map((epoch) => epoch.start));
  const last = Math.max(...epochs.map((epoch) => epoch.end), first + 1);
  const x = (time) => LEFT + ((time - first) / (last - first)) * (WIDTH - LEFT - RIGHT);
  const rows = [...epochs].reverse();
  const height = TOP + rows.length * ROW + 8;
  const step = niceStep(last - first, 6);
  const ticks = [];
  for (let at = Math.ceil(first / step) * step - first; at <= last - first; at += step) ticks.push(at);
  return h(
    "div",
    { class: "timeline-scroll", tabindex: "0", role: "region", "aria-label": "Epochs over time" },
    s(
      "svg",
      { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Epochs over time; the table has the numbers" },
      ticks.map((at) =>
        s(
          "g",
          null,
          s("line", { class: "grid", x1: x(first + at), x2: x(first + at), y1: TOP - 6, y2: height }),
          s("text", { class: "axis", x: x(first + at), y: 12, "text-anchor": "middle" }, clockTime(first + at)),
        ),
      ),
      rows.map((epoch, index) => bar(epoch, TOP + index * ROW, x)),
      events.filter((event) => event.at >= first && event.at <= last).map((event) => mark(event, x(event.at), height)),
    ),
  );
}

function bar(epoch, y, x) {
  let at = epoch.start;
  const parts = PHASES.map(([name]) => {
    const spent = epoch.phases[name] || 0;
    const from = x(at);
    at += spent;
    return s("rect", { class: `phase-${name}`, x: from, y: y + 2, width: Math.max(0, x(at) - from), height: ROW - 5 });
  });
  const failed = epoch.status === "FAILED";
  const title = `epoch ${epoch.epoch}${epoch.attempt > 0 ? `, attempt ${epoch.attempt}` : ""}: ${duration(epoch.end - epoch.start)}${failed ? `, failed: ${epoch.failure || ""}` : ""}`;
  return s(
    "g",
    { key: `${epoch.epoch}.${epoch.attempt}` },
    s("title", null, title),
    s("text", { class: "axis", x: LEFT - 8, y: y + ROW - 6, "text-anchor": "end" }, epoch.attempt > 0 ? `${epoch.epoch}·${epoch.attempt}` : String(epoch.epoch)),
    parts,
    failed ? s("rect", { class: "epoch-failed", x: x(epoch.start), y: y + 2, width: Math.max(2, x(epoch.end) - x(epoch.start)), height: ROW - 5 }) : null,
  );
}

function mark(event, at, height) {
  const kind = BAD.has(event.kind) ? "bad" : "";
  return s(
    "g",
    { key: `${event.kind}${event.at}` },
    s("title", null, `${clockTime(event.at)} ${event.text}`),
    s("line", { class: `event-line ${kind}`, x1: at, x2: at, y1: TOP - 8, y2: height }),
    s("text", { class: `event-label ${kind}`, x: at + 3, y: TOP - 2 }, event.kind.replace("-", " ")),
  );
}
