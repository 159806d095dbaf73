/**
 * Timeline: every epoch with its phases, and what happened to the job. The first line answers where the time went.
 */

import { h } from "../elements.js";
import { bytes, clockTime, count, duration, percent, watermark } from "../format.js";
import { badge, card, cardWith, choice, moment, pictured, table } from "../parts.js";
import { PHASES, epochBars } from "../pictures/epoch_bars.js";
import { get } from "../rest.js";
import { jobPage } from "./job_frame.js";

/** Kinds of events that are marked in the picture; the table lists all. */
const MARKED = new Set(["failure", "restart", "rescale", "restored", "savepoint", "process-died"]);

export default jobPage({ tab: "timeline", load, view });

function load(context, signal, path) {
  return get(`${path}/flott/timeline`, { signal });
}

function view({ epochs, events }, context, job) {
  const shown = Number(context.state.shown || 25);
  const last = epochs.filter((epoch) => epoch.status !== "RUNNING").slice(-shown);
  if (last.length === 0) {
    return card("Timeline", h("p", { class: "empty" }, "No epoch has ended yet. The first one starts the workers, which takes a few seconds."));
  }
  const choose = (value) => {
    context.state.shown = value;
    context.update();
  };
  return h(
    "div",
    { class: "stack" },
    card(`Where the time went in the last ${last.length} epochs`, whereTheTimeWent(last)),
    cardWith(
      "Epochs",
      choice("How many epochs", [["10", "10"], ["25", "25"], ["100", "100"], ["300", "300"]], String(shown), choose),
      pictured(epochBars(last, events.filter((event) => MARKED.has(event.kind))), "The epochs", () => epochTable(last)),
    ),
    card("Events", eventTable(events)),
  );
}

/** The sum of each phase, and of the time between epochs, against the time that has passed. */
export function totals(epochs) {
  const passed = Math.max(1, Math.max(...epochs.map((epoch) => epoch.end)) - Math.min(...epochs.map((epoch) => epoch.start)));
  const spent = PHASES.map(([name, text, meaning]) => ({
    name, text, meaning, ms: epochs.reduce((sum, epoch) => sum + (epoch.phases[name] || 0), 0),
  }));
  const between = Math.max(0, passed - spent.reduce((sum, one) => sum + one.ms, 0));
  return [...spent, { name: "between", text: "between", meaning: "no epoch was under way: waiting for records or for the next interval", ms: between }].map((one) => ({ ...one, share: one.ms / passed }));
}

function whereTheTimeWent(epochs) {
  return h(
    "div",
    { class: "stack tight" },
    totals(epochs).map((one) =>
      h(
        "div",
        { class: "share-row", title: one.meaning },
        h("span", null, one.text),
        h("span", { class: "share-track", role: "img", "aria-label": percent(one.share) }, h("span", { class: `swatch phase-${one.name}`, css: { width: `${Math.min(100, one.share * 100)}%` } })),
        h("span", { class: "number" }, `${percent(one.share)}, ${duration(one.ms)}`),
      ),
    ),
  );
}

function epochTable(epochs) {
  return table({
    caption: "Epochs",
    rows: [...epochs].reverse(),
    key: (epoch) => `${epoch.epoch}.${epoch.attempt}`,
    columns: [
      { title: "Epoch", number: true, cell: (epoch) => count(epoch.epoch) },
      { title: "Attempt", number: true, cell: (epoch) => count(epoch.attempt) },
      { title: "Status", cell: (epoch) => badge(epoch.status) },
      { title: "Started", cell: (epoch) => moment(epoch.start, clockTime(epoch.start)) },
      { title: "Took", number: true, cell: (epoch) => duration(epoch.end - epoch.start) },
      ...PHASES.map(([name, text]) => ({ title: text, number: true, cell: (epoch) => duration(epoch.phases[name]) })),
      { title: "Read", number: true, cell: (epoch) => count(epoch["records-in"]) },
      { title: "Written", number: true, cell: (epoch) => count(epoch["records-out"]) },
      { title: "State", number: true, cell: (epoch) => bytes(epoch["state-size"]) },
      { title: "Subtasks", number: true, cell: (epoch) => count(epoch.parallelism) },
      { title: "Watermark", cell: (epoch) => watermark(epoch.watermark) },
      { title: "Failure", cell: (epoch) => epoch.failure || "" },
    ],
  });
}

function eventTable(events) {
  return table({
    caption: "Events",
    rows: [...events].reverse(),
    empty: "Nothing has happened besides epochs.",
    columns: [
      { title: "Time", cell: (event) => moment(event.at) },
      { title: "Event", cell: (event) => event.kind.replace("-", " ") },
      { title: "Epoch", number: true, cell: (event) => (event.epoch === null ? "" : count(event.epoch)) },
      { title: "What happened", wide: true, cell: (event) => event.text },
    ],
  });
}
