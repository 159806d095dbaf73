/**
 * Preview: the records of a stream in the last epoch, as a table. The epoch is run again without side effects, so that
 * nothing is added to the live job. The input of a pipelined job is not recorded: its sources are read on instead.
 */

import { h } from "../elements.js";
import { NONE, count, exactWatermark, isNumber } from "../format.js";
import { card, choice, select, table } from "../parts.js";
import { outcome, part, post } from "../rest.js";
import { jobPage } from "./job_frame.js";

const RUN_AGAIN = "The last epoch is run again, up to this operator, without its sinks. The running job is not touched.";
const READ_ON =
  "A pipelined job does not record its input, so what it has processed cannot be shown. Instead, its sources are read once more from their positions in the last checkpoint, at most 10,000 records, and processed beside the job with the state of that checkpoint, without its sinks. Records may meet in another order than in the job. Sources that cannot be read twice, such as queues, are refused.";

/** Whose records are shown: the choice above may have been changed since. */
const SIDES = { received: "Received by", emitted: "Emitted by" };

export default jobPage({ tab: "preview", view });

function view(_, context, job) {
  const operators = job.vertices.flatMap((vertex) => vertex.operators.map((operator) => [operator.id, operator.name]));
  if (operators.length === 0) return card("No operators", h("p", { class: "empty" }, "The graph of the job is not known: it has not begun yet, or it ended before it had begun."));
  const state = context.state;
  if (!operators.some(([id]) => id === state.operator)) state.operator = operators.some(([id]) => id === context.query.operator) ? context.query.operator : operators[0][0];
  state.side ||= "emitted";
  const pipelined = job["execution-mode"] === "pipelined";
  const set = (name) => (value) => {
    state[name] = value;
    context.update();
  };
  return h(
    "div",
    { class: "stack" },
    card(
      pipelined ? "Records since the last checkpoint" : "Records of the last epoch",
      h("p", { class: "quiet" }, pipelined ? READ_ON : RUN_AGAIN),
      h(
        "div",
        { class: "row" },
        select("Operator", operators, state.operator, set("operator")),
        choice("Which records", [["received", "Received"], ["emitted", "Emitted"]], state.side, set("side")),
        h("button", { class: "button primary", type: "button", disabled: state.asking, on: { click: () => ask(context, job, operators) } }, state.asking ? "Running…" : "Show records"),
      ),
      state.problem ? h("p", { class: "problem", role: "alert" }, state.problem) : null,
    ),
    state.answer ? card(`${SIDES[state.shown.side]} ${state.shown.name}`, records(state.answer)) : null,
  );
}

async function ask(context, job, operators) {
  const { state } = context;
  const { operator, side } = state;
  const path = `/jobs/${part(job.id)}/flott/preview`;
  state.asking = true;
  state.problem = null;
  context.update();
  try {
    const { "request-id": id } = await post(path, { operator, side, limit: 200 });
    state.answer = await outcome(path, id);
    state.shown = { side, name: operators.find(([known]) => known === operator)[1] };
    state.problem = state.answer.failure;
  } catch (error) {
    state.problem = error.message;
  }
  state.asking = false;
  context.update();
}

/** Records that are plain objects become columns; all others one column. */
export function columnsOf(values) {
  const objects = values.length > 0 && values.every((value) => value.json !== null && typeof value.json === "object" && !Array.isArray(value.json));
  if (!objects) return null;
  const names = [...new Set(values.flatMap((value) => Object.keys(value.json)))];
  return names.length <= 20 ? names : null;
}

function records(answer) {
  const names = columnsOf(answer.records.map((record) => record.value));
  const own = names === null
    ? [{ title: "Record", wide: true, cell: (record) => h("span", { class: "value-text", title: record.value.type }, record.value.text) }]
    : names.map((name) => ({ title: name, number: answer.records.every((record) => isNumber(record.value.json[name])), cell: (record) => h("span", { class: "value-text" }, shown(record.value.json[name])) }));
  return h(
    "div",
    { class: "stack results" },
    h("p", null, `${origin(answer)}: ${count(answer.count)} records${answer.truncated ? `, of which ${count(answer.records.length)} are shown` : ""}.`),
    table({
      caption: "Records",
      rows: answer.records,
      empty: answer.recorded === false ? "Nothing for this operator has come in since that checkpoint." : "The operator had no records in this epoch.",
      columns: [
        { title: "Subtask", number: true, cell: (record) => count(record.subtask + 1) },
        { title: "Time", cell: (record) => (record.timestamp === null ? NONE : exactWatermark(record.timestamp)) },
        ...own,
      ],
    }),
  );
}

function origin(answer) {
  if (answer.recorded === false) return `Read on from checkpoint ${answer.epoch - 1}`;
  return `Epoch ${answer.epoch}${answer.complete === false ? ", which is under way" : ""}`;
}

function shown(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
