/**
 * Timeline: every epoch, or checkpoint of a pipelined job, with its phases, and what happened to the job. The first
 * card answers where the time went.
 */

import { h } from "../elements.js";
import { bytes, clockTime, count, duration, percent, watermark } from "../format.js";
import { ENDED, arrows, badge, card, cardWith, choice, moment, pictured, table } from "../parts.js";
import { MARKED, epochRows, epochStrip, isCheckpoint, phasesOf } from "../pictures/epoch_bars.js";
import { get } from "../rest.js";
import { jobPage } from "./job_frame.js";

export default jobPage({ tab: "timeline", load, view });

function load(context, signal, path) {
  return get(`${path}/flott/timeline`, { signal });
}

function view({ epochs, events }, context, job) {
  const shown = Number(context.state.shown || 25);
  const last = epochs.filter((epoch) => epoch.status !== "RUNNING").slice(-shown);
  const marked = events.filter((event) => MARKED.has(event.kind));
  if (last.length === 0) {
    const none = ENDED.has(job.status) ? "No epoch has ended." : "No epoch has ended yet. The first one starts the workers, which takes a few seconds.";
    return h(
      "div",
      { class: "stack" },
      card("Timeline", h("p", { class: "empty" }, none), marked.length === 0 ? null : epochStrip([], marked)),
      events.length === 0 ? null : card("Events", eventTable(events)),
    );
  }
  const checkpoints = last.filter(isCheckpoint);
  const what = checkpoints.length === last.length ? "checkpoints" : checkpoints.length === 0 ? "epochs" : "epochs and checkpoints";
  const title = what[0].toUpperCase() + what.slice(1);
  const choose = (value) => {
    context.state.shown = value;
    context.update();
  };
  return h(
    "div",
    { class: "stack" },
    card(`Where the time went in the last ${last.length} ${what}`, whereTheTimeWent(last)),
    cardWith(
      title,
      choice(`How many ${what}`, [["10", "10"], ["25", "25"], ["100", "100"], ["300", "300"]], String(shown), choose),
      epochStrip(last, marked),
      legend(last),
      h("h3", null, `What ${what} spent their time on`),
      checkpoints.length === 0 ? null : h("p", { class: "quiet" }, "A checkpoint begins when its barriers are sent. Tasks process records meanwhile, except during the snapshot."),
      pictured(epochRows(last), `The ${what}`, () => epochTable(last, title)),
    ),
    card("Events", eventTable(events)),
  );
}

function legend(epochs) {
  const failed = epochs.some((epoch) => epoch.status === "FAILED");
  return h(
    "ul",
    { class: "legend", "aria-label": "Colours" },
    phasesOf(epochs).map(([name, text, meaning]) => h("li", { title: meaning }, h("span", { class: `swatch phase-${name}`, "aria-hidden": "true" }), text)),
    epochs.some(isCheckpoint) ? h("li", null, h("span", { class: "swatch line phase-processing", "aria-hidden": "true" }), "processing, no checkpoint under way") : null,
    failed ? h("li", null, h("span", { class: "swatch epoch-failed", "aria-hidden": "true" }), "failed") : null,
  );
}

/** The time before checkpoints of continuous tasks in which none was under way. */
function processing(epochs) {
  let ended = Infinity;
  let sum = 0;
  for (const epoch of [...epochs].sort((one, other) => one.start - other.start)) {
    if (isCheckpoint(epoch) && epoch.start > ended) sum += epoch.start - ended;
    ended = ended === Infinity ? epoch.end : Math.max(ended, epoch.end);
  }
  return sum;
}

/** The sum of each phase, and of the time between epochs, against the time that has passed. */
export function totals(epochs) {
  const passed = Math.max(1, Math.max(...epochs.map((epoch) => epoch.end)) - Math.min(...epochs.map((epoch) => epoch.start)));
  const spent = phasesOf(epochs).map(([name, text, meaning]) => ({
    name, text, meaning, ms: epochs.reduce((sum, epoch) => sum + (epoch.phases[name] || 0), 0),
  }));
  const between = Math.max(0, passed - spent.reduce((sum, one) => sum + one.ms, 0));
  const continuous = Math.min(between, processing(epochs));
  const rest = [];
  if (epochs.some(isCheckpoint)) rest.push({ name: "processing", text: "processing", meaning: "tasks ran and no checkpoint was under way", ms: continuous });
  if (epochs.some((epoch) => !isCheckpoint(epoch))) rest.push({ name: "between", text: "between", meaning: "no epoch was under way: waiting for records or for the next interval", ms: between - continuous });
  return [...spent, ...rest].map((one) => ({ ...one, share: one.ms / passed }));
}

function whereTheTimeWent(epochs) {
  return h(
    "div",
    { class: "stack tight" },
    totals(epochs).map((one) =>
      h(
        "div",
        { class: "share-row", title: one.meaning },
        h("span", { class: "legend" }, h("span", { class: `swatch phase-${one.name}`, "aria-hidden": "true" }), one.text),
        h("span", { class: "share-track", role: "img", "aria-label": percent(one.share) }, h("span", { class: `swatch phase-${one.name}`, css: { width: `${Math.min(100, one.share * 100)}%` } })),
        h("span", { class: "number" }, `${percent(one.share)}, ${duration(one.ms)}`),
      ),
    ),
  );
}

function epochTable(epochs, caption) {
  return table({
    caption,
    rows: [...epochs].reverse(),
    key: (epoch) => `${epoch.epoch}.${epoch.attempt}`,
    columns: [
      { title: "Number", number: true, cell: (epoch) => count(epoch.epoch) },
      { title: "Mode", cell: (epoch) => (isCheckpoint(epoch) ? "pipelined" : "epoch") },
      { title: "Attempt", number: true, cell: (epoch) => count(epoch.attempt) },
      { title: "Status", cell: (epoch) => badge(epoch.status) },
      { title: "Started", cell: (epoch) => moment(epoch.start, clockTime(epoch.start)) },
      { title: "Took", number: true, cell: (epoch) => duration(epoch.end - epoch.start) },
      ...phasesOf(epochs).map(([name, text]) => ({ title: text, number: true, cell: (epoch) => duration(epoch.phases[name]) })),
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
      { title: "What happened", wide: true, cell: (event) => (event.kind === "rescale" ? arrows(event.text) : event.text) },
    ],
  });
}
