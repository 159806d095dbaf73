/**
 * Failure: the last failure as a card, the line that replays it, and all failures before.
 */

import { copy } from "../dialogs.js";
import { h } from "../elements.js";
import { count, watermark } from "../format.js";
import { arrows, button, card, moment, table } from "../parts.js";
import { get } from "../rest.js";
import { jobPage } from "./job_frame.js";

export default jobPage({ tab: "failure", load, view });

function load(context, signal, path) {
  return get(`${path}/flott/failures`, { signal });
}

function view(report, context, job) {
  const [last, ...before] = report.failures;
  if (last === undefined) {
    return card("No failure", h("p", null, "The job has not failed. ", h("span", { class: "quiet" }, `If it does: ${report["restart-strategy"]}.`)));
  }
  const chosen = report.failures.find((failure) => String(failure.at) === context.query.at) || last;
  return h(
    "div",
    { class: "stack" },
    card(chosen === last ? "The last failure" : "A failure before", failureCard(chosen)),
    card("Restarts", h("p", null, `${report.restarts === 0 ? "None so far" : report.restarts === 1 ? "1 so far" : `${count(report.restarts)} so far`}. The strategy: ${report["restart-strategy"]}.`)),
    before.length > 0 ? card("All failures", history(report.failures, chosen, context)) : null,
  );
}

function failureCard(failure) {
  const card = failure.card;
  return h(
    "div",
    { class: "stack", key: failure.at },
    h("p", { class: "problem" }, card ? card.error : firstLine(failure.text)),
    card ? pairs(card, failure) : null,
    failure.replay ? replayLine(failure.replay) : null,
    h("details", { open: true }, h("summary", null, "Traceback"), h("pre", { class: "code" }, card && card.traceback ? card.traceback : failure.text)),
    h("details", null, h("summary", null, "The whole card as text"), h("pre", { class: "code" }, failure.text)),
  );
}

function firstLine(text) {
  return String(text).split("\n").find((line) => line.trim() !== "") || "";
}

function pairs(card, failure) {
  const rows = [
    ["When", moment(failure.at)],
    ["Operator", card.uid ? `${card.operator} (uid ${card.uid})` : card.operator],
    ["Defined at", card["defined-at"] && h("code", null, card["defined-at"])],
    ["Vertex", card.vertex && arrows(card.vertex)],
    ["Subtask", card.subtask === null || card.subtask === undefined ? null : `${card.subtask + 1} of ${card.parallelism}`],
    ["What it did", card.activity],
    ["Key", card.key && h("code", { class: "value-text" }, card.key)],
    ["Record", card.record && h("code", { class: "value-text" }, card.record)],
    ["Time of the record", card.timestamp === null || card.timestamp === undefined ? null : watermark(card.timestamp)],
    ["Place in the input", card.origin && [...new Set(card.origin)].join(" to ")],
    ["Epoch", card.epoch === null || card.epoch === undefined ? null : card.attempt > 0 ? `${card.epoch}, attempt ${card.attempt + 1}` : String(card.epoch)],
    ["Executor", failure.executor ? `${failure.executor} on ${failure.host}` : failure.host],
    ["Cause is in", card.blame],
  ];
  return h(
    "dl",
    { class: "pairs" },
    rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

function replayLine(line) {
  return h(
    "div",
    { class: "stack tight" },
    h("p", { class: "quiet" }, "Run this epoch of the operator again, on your machine, under a debugger if you like:"),
    h("div", { class: "copyable" }, h("code", { class: "code" }, line), button("Copy", (event) => copy(line, event.currentTarget))),
  );
}

function history(failures, chosen, context) {
  return table({
    caption: "All failures",
    rows: failures,
    key: (failure) => failure.at,
    rowClass: (failure) => (failure === chosen ? "chosen" : null),
    columns: [
      { title: "Time", cell: (failure) => h("button", { class: "as-link", type: "button", on: { click: () => context.go({ at: failure.at }) } }, moment(failure.at)) },
      { title: "Error", cell: (failure) => h("code", null, failure.name) },
      { title: "Message", wide: true, cell: (failure) => (failure.card ? failure.card.error : firstLine(failure.text)) },
      { title: "Task", cell: (failure) => arrows(failure.task || "") },
      { title: "Host", cell: (failure) => failure.host || "" },
    ],
  });
}
