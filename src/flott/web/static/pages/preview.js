/**
 * Preview: the records of a stream in the last epoch, as a table. The epoch is run again without side effects, so that
 * nothing is added to the live job.
 */

import { h } from "../elements.js";
import { NONE, count, dateTime } from "../format.js";
import { card, choice, select, table } from "../parts.js";
import { outcome, part, post } from "../rest.js";
import { jobPage } from "./job_frame.js";

export default jobPage({ tab: "preview", view });

function view(_, context, job) {
  const operators = job.vertices.flatMap((vertex) => vertex.operators.map((operator) => [operator.id, operator.name]));
  const state = context.state;
  state.operator ||= context.query.operator || operators[0][0];
  state.side ||= "emitted";
  const set = (name) => (value) => {
    state[name] = value;
    context.update();
  };
  return h(
    "div",
    { class: "stack" },
    card(
      "Records of the last epoch",
      h("p", { class: "quiet" }, "The last epoch is run again, up to this operator, without its sinks. The running job is not touched."),
      h(
        "div",
        { class: "row" },
        select("Operator", operators, state.operator, set("operator")),
        choice("Which records", [["received", "Received"], ["emitted", "Emitted"]], state.side, set("side")),
        h("button", { class: "button primary", type: "button", disabled: state.asking, on: { click: () => ask(context, job) } }, state.asking ? "Running…" : "Show records"),
      ),
      state.problem ? h("p", { class: "problem", role: "alert" }, state.problem) : null,
    ),
    state.answer ? card(null, records(state.answer)) : null,
  );
}

async function ask(context, job) {
  const { state } = context;
  const path = `/jobs/${part(job.id)}/flott/preview`;
  state.asking = true;
  state.problem = null;
  context.update();
  try {
    const { "request-id": id } = await post(path, { operator: state.operator, side: state.side, limit: 200 });
    state.answer = await outcome(path, id);
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
    : names.map((name) => ({ title: name, cell: (record) => h("span", { class: "value-text" }, shown(record.value.json[name])) }));
  return h(
    "div",
    { class: "stack" },
    h("p", null, `Epoch ${answer.epoch}${answer.complete === false ? ", which is under way" : ""}: ${count(answer.count)} records${answer.truncated ? `, of which ${count(answer.records.length)} are shown` : ""}.`),
    table({
      caption: "Records",
      rows: answer.records,
      empty: "The operator had no records in this epoch.",
      columns: [
        { title: "Subtask", number: true, cell: (record) => count(record.subtask + 1) },
        { title: "Time", cell: (record) => (record.timestamp === null ? NONE : dateTime(record.timestamp)) },
        ...own,
      ],
    }),
  );
}

function shown(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
