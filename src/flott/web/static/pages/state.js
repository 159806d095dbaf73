/**
 * State: browse the keyed state of a checkpoint. Operators and states, keys and values by page, one key and its history
 * over the kept checkpoints, and what changed between two of them.
 */

import { h } from "../elements.js";
import { NONE, bytes, count, dateTime, duration } from "../format.js";
import { button, card, cardWith, choice, select, table, tag } from "../parts.js";
import { get, getOrNull, withQuery } from "../rest.js";
import { jobPage } from "./job_frame.js";

const PAGE = 50;

export default jobPage({ tab: "state", load, view, pause: 60000 });

async function load(context, signal, path) {
  const { checkpoint, operator, state } = context.query;
  const [kept, catalogue] = await Promise.all([
    getOrNull(`${path}/flott/state/checkpoints`, { signal }),
    getOrNull(withQuery(`${path}/flott/state`, { checkpoint }), { signal }),
  ]);
  if (catalogue === null) return { kept: [], catalogue: null, answer: null };
  const chosen = chosenState(catalogue, operator, state);
  const answer = chosen === null ? null : await ask(context, signal, `${path}/flott/state`, { checkpoint, operator: chosen.operator.id, state: chosen.state.name }, catalogue.checkpoint);
  return { kept: kept ? kept.checkpoints : [], catalogue, chosen, answer };
}

/** The state of the address; without one, the first that has keys. */
function chosenState(catalogue, operator, state) {
  const all = catalogue.operators.flatMap((one) => one.states.map((found) => ({ operator: one, state: found })));
  return all.find((one) => one.operator.id === operator && one.state.name === state) || all.find((one) => one.state.keyed) || all[0] || null;
}

/**
 * What the chosen view of the state needs. Without a chosen checkpoint, each question is about the latest: a fast job
 * deletes old checkpoints between two questions.
 */
async function ask(context, signal, path, which, catalogueNumber) {
  const { view: kind = "rows", key = "", after = "", prefix = "", before = "" } = context.query;
  const counted = get(withQuery(`${path}/count`, which), { signal });
  if (kind === "key" && key !== "") {
    const [found, history, numbers] = await Promise.all([
      get(withQuery(`${path}/key`, { ...which, key }), { signal }),
      get(withQuery(`${path}/history`, { operator: which.operator, state: which.state, key }), { signal }),
      counted,
    ]);
    return { kind, found, history: history.history, numbers };
  }
  if (kind === "diff" && before !== "") {
    const query = { before, after: which.checkpoint || catalogueNumber, operator: which.operator, state: which.state, limit: PAGE };
    const [diff, numbers] = await Promise.all([get(withQuery(`${path}/diff`, query), { signal }), counted]);
    return { kind, diff, numbers };
  }
  if (kind !== "rows") return { kind, numbers: await counted };
  const [rows, numbers] = await Promise.all([get(withQuery(`${path}/rows`, { ...which, limit: PAGE, after, prefix }), { signal }), counted]);
  return { kind, rows, numbers };
}

function view({ kept, catalogue, chosen, answer }, context, job) {
  if (catalogue === null) {
    return card("State", h("p", { class: "empty" }, "No checkpoint of this job can be read now: none has completed, or the last ones are gone."));
  }
  const numbers = kept.map((one) => [String(one.checkpoint), `${one.checkpoint}, ${dateTime(one.completed)}`]);
  const checkpoints = [["", "the latest"], ...numbers];
  const choose = (checkpoint) => context.go({ checkpoint, after: null });
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      select("Checkpoint", checkpoints, context.query.checkpoint || "", choose),
      h("span", { class: "quiet" }, "Reading a checkpoint does not touch the running job."),
    ),
    h("div", { class: "two" }, card("States", menu(catalogue, chosen, context)), chosen === null ? card("No state", h("p", { class: "empty" }, "The checkpoint holds no state.")) : stateCard(chosen, answer, kept, catalogue, context)),
  );
}

function menu(catalogue, chosen, context) {
  const withState = catalogue.operators.filter((operator) => operator.states.length > 0);
  return withState.map((operator) =>
    h(
      "div",
      { class: "menu", key: operator.id },
      h("h3", null, operator.name || operator.uid || operator.id),
      operator.states.map((state) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(chosen !== null && chosen.operator.id === operator.id && chosen.state.name === state.name),
            on: { click: () => context.go({ operator: operator.id, state: state.name, after: null, view: null, key: null, before: null }) },
          },
          h("span", null, state.name),
          h("span", { class: "quiet" }, bytes(state.size)),
        ),
      ),
    ),
  );
}

function stateCard({ operator, state }, answer, kept, catalogue, context) {
  const kinds = [["rows", "Rows"], ["key", "One key"], ["diff", "Compare"]];
  const { numbers } = answer;
  return cardWith(
    state.name,
    choice("What to see", kinds, answer.kind, (kind) => context.go({ view: kind, after: null })),
    h(
      "dl",
      { class: "pairs" },
      [
        ["Operator", `${operator.name || operator.id}${operator.uid ? ` (uid ${operator.uid})` : ""}`],
        ["Kind", state.kind],
        ["Types", [state["key-type"], state["map-key-type"], state["value-type"]].filter(Boolean).join(" → ") || NONE],
        ["Keys", numbers.keys === null ? NONE : `${count(numbers.keys)}${numbers.complete ? "" : " or more"}`],
        ["Entries", `${count(numbers.entries)}${numbers.complete ? "" : " or more"}`],
        ["Size", bytes(state.size)],
        state["time-to-live"] ? ["Time to live", duration(state["time-to-live"])] : null,
      ].filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
    ),
    answer.kind === "rows" ? rowsView(answer.rows, context) : null,
    answer.kind === "key" ? keyView(answer, context) : null,
    answer.kind === "diff" ? diffView(answer, kept, catalogue, context) : null,
  );
}

/** A value: its text, and its plain form if that says more. */
function valueText(value) {
  if (value === null || value === undefined) return NONE;
  return h("span", { class: "value-text", title: value.type }, value.text, value.truncated ? h("span", { class: "quiet" }, " … shortened") : null);
}

function rowTable(rows, caption, context) {
  const open = (row) => context.go({ view: "key", key: row.key.text });
  return table({
    caption,
    rows,
    empty: "No key has this state.",
    columns: [
      { title: "Key", cell: (row) => h("button", { class: "as-link value-text", type: "button", title: "Look this key up", on: { click: () => open(row) } }, row.key.text) },
      ...(rows.some((row) => row.window) ? [{ title: "Window", cell: (row) => row.window || "" }] : []),
      { title: "Value", wide: true, cell: (row) => valueText(row.value) },
    ],
  });
}

function rowsView(found, context) {
  const seek = (event) => {
    event.preventDefault();
    context.go({ prefix: new FormData(event.target).get("prefix"), after: null });
  };
  return h(
    "div",
    { class: "stack" },
    h(
      "form",
      { class: "row", on: { submit: seek } },
      h("input", { type: "search", name: "prefix", value: context.query.prefix || "", placeholder: "Keys that begin with", "aria-label": "Keys that begin with" }),
      h("button", { class: "button", type: "submit" }, "Filter"),
    ),
    h("p", { class: "quiet" }, `Of checkpoint ${found.checkpoint}.`),
    rowTable(found.rows, "Keys and values", context),
    h(
      "div",
      { class: "row end" },
      button("First page", () => context.go({ after: null }), { disabled: !context.query.after }),
      button("Next page", () => context.go({ after: found.next }), { disabled: !found.next }),
    ),
  );
}

function keyView({ found, history }, context) {
  const seek = (event) => {
    event.preventDefault();
    context.go({ key: new FormData(event.target).get("key") });
  };
  return h(
    "div",
    { class: "stack" },
    h(
      "form",
      { class: "row", on: { submit: seek } },
      h("input", { type: "search", name: "key", value: context.query.key || "", placeholder: "A key, such as 'Norway' or (1, 'a')", "aria-label": "A key", required: true }),
      h("button", { class: "button", type: "submit" }, "Look up"),
    ),
    found === undefined ? null : found.found ? rowTable([found.row], "The key", context) : h("p", { class: "empty" }, "The checkpoint has no value for this key."),
    history === undefined
      ? null
      : table({
          caption: "History of the key",
          rows: history,
          key: (one) => one.checkpoint,
          columns: [
            { title: "Checkpoint", number: true, cell: (one) => count(one.checkpoint) },
            { title: "Completed", cell: (one) => dateTime(one.completed) },
            { title: "Value", wide: true, cell: (one) => (one.found ? valueText(one.value) : "no value") },
            { title: "Changed", cell: (one) => (one.changed ? tag("changed") : "") },
          ],
        }),
  );
}

function diffView({ diff }, kept, catalogue, context) {
  const others = kept.filter((one) => one.checkpoint !== catalogue.checkpoint);
  const values = [["", "choose one"], ...others.map((one) => [String(one.checkpoint), `${one.checkpoint}, ${dateTime(one.completed)}`])];
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "row" }, select("Compare with", values, context.query.before || "", (before) => context.go({ before })), h("span", { class: "quiet" }, `Checkpoint ${catalogue.checkpoint} is the later one.`)),
    diff === undefined
      ? null
      : diff.states.map((state) =>
          h(
            "div",
            { class: "stack" },
            h("p", null, `${count(state.added)} added, ${count(state.changed)} changed, ${count(state.removed)} removed${state.complete ? "" : " so far; the state is too large to compare all of it"}.`),
            table({
              caption: "Changes",
              rows: state.changes,
              empty: "Nothing differs.",
              columns: [
                { title: "Change", cell: (change) => tag(change.kind) },
                { title: "Key", cell: (change) => valueText(change.key) },
                { title: "Before", wide: true, cell: (change) => valueText(change.before) },
                { title: "After", wide: true, cell: (change) => valueText(change.after) },
              ],
            }),
          ),
        ),
  );
}
