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
    return { kind, found, history: history.history, whole: history.complete, numbers };
  }
  if (kind === "diff" && Number(before) > 0 && Number(before) < Number(which.checkpoint || catalogueNumber)) {
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
  const choose = (checkpoint) => context.go({ checkpoint, after: null, before: null });
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
            on: { click: () => context.go({ operator: operator.id, state: state.name, after: null, prefix: null, view: null, key: null, before: null }) },
          },
          h("span", null, stateName(state.name)),
          h("span", { class: "quiet" }, bytes(state.size)),
        ),
      ),
    ),
  );
}

/** A state that Flott keeps for an operator, such as the contents of windows, has a name with an underscore in front. */
export function stateName(name) {
  if (name.startsWith("_window:")) return `${name.slice("_window:".length)} (of each window)`; // the program's own
  return name.startsWith("_") ? `${name.slice(1).replace(/-/g, " ")} (of Flott)` : name;
}

function stateCard({ operator, state }, answer, kept, catalogue, context) {
  const kinds = [["rows", "Rows"], ["key", "One key"], ["diff", "Compare"]];
  const { numbers } = answer;
  const types = [state["key-type"], state["map-key-type"], state["value-type"]].filter(Boolean);
  return cardWith(
    stateName(state.name),
    choice("What to see", kinds, answer.kind, (kind) => context.go({ view: kind, after: null })),
    h(
      "dl",
      { class: "pairs across" },
      [
        ["Operator", `${operator.name || operator.id}${operator.uid ? ` (uid ${operator.uid})` : ""}`],
        ["Kind", state.kind],
        types.length === 0 ? null : ["Types", types.join(" → ")],
        numbers.keys === null ? null : ["Keys", `${count(numbers.keys)}${numbers.complete ? "" : " or more"}`],
        ["Entries", `${count(numbers.entries)}${numbers.complete ? "" : " or more"}`],
        ["Size", bytes(state.size)],
        state["time-to-live"] ? ["Time to live", duration(state["time-to-live"])] : null,
      ].filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
    ),
    answer.kind === "rows" ? rowsView(answer.rows, catalogue, context) : null,
    answer.kind === "key" ? keyView(answer, context) : null,
    answer.kind === "diff" ? diffView(answer, kept, catalogue, context) : null,
  );
}

/** A value: its text, and its plain form if that says more. */
function valueText(value) {
  if (value === null || value === undefined) return NONE;
  return h("span", { class: "value-text", title: value.type }, value.text, value.truncated ? h("span", { class: "quiet" }, " … shortened") : null);
}

function rowTable(rows, caption, context, empty = "No key has this state.") {
  const open = (row) => context.go({ view: "key", key: row.key.text });
  return table({
    caption,
    rows,
    empty,
    columns: [
      { title: "Key", cell: (row) => h("button", { class: "as-link value-text", type: "button", title: "Look this key up", on: { click: () => open(row) } }, row.key.text) },
      ...(rows.some((row) => row.window) ? [{ title: "Window", cell: (row) => row.window || "" }] : []),
      { title: "Value", wide: true, cell: (row) => valueText(row.value) },
    ],
  });
}

/** Pages come in the order of key groups. If there is only one, its keys are sorted for the reader. */
export function sortedRows(rows) {
  const order = new Intl.Collator("en", { numeric: true });
  return [...rows].sort((one, other) => order.compare(one.key.text, other.key.text));
}

function rowsView(found, catalogue, context) {
  const { prefix = "", after = "" } = context.query;
  const seek = (event) => {
    event.preventDefault();
    context.state.pages = [];
    context.go({ prefix: new FormData(event.target).get("prefix"), after: null });
  };
  const isAlone = after === "" && !found.next;
  const time = found.checkpoint === catalogue.checkpoint ? `, completed ${dateTime(catalogue.completed)}` : "";
  return h(
    "div",
    { class: "stack" },
    h(
      "form",
      { class: "row", on: { submit: seek } },
      h("input", { type: "search", name: "prefix", value: prefix, placeholder: "Keys that begin with", "aria-label": "Keys that begin with" }),
      h("button", { class: "button", type: "submit" }, "Filter"),
    ),
    h("p", { class: "quiet" }, `The rows are those of checkpoint ${found.checkpoint}${time}.`),
    rowTable(isAlone ? sortedRows(found.rows) : found.rows, "Keys and values", context, emptyText(found, prefix)),
    isAlone ? null : pages(found, context),
  );
}

/** Why a page has no rows. The search for keys ends after some seconds, and can be continued where it has ended. */
function emptyText(found, prefix) {
  if (found.next) return "No such key so far: the state is large, and the search has stopped after some seconds. “Next page” goes on from there.";
  return prefix === "" ? "No key has this state." : `No key begins with ${prefix}.`;
}

/** The pages that were passed are remembered, because the JobManager knows only where the next one begins. */
function pages(found, context) {
  const passed = (context.state.pages ||= []);
  const { after = "" } = context.query;
  const next = () => {
    passed.push(after);
    context.go({ after: found.next });
  };
  const previous = () => context.go({ after: passed.pop() || null });
  const first = () => {
    passed.length = 0;
    context.go({ after: null });
  };
  return h(
    "div",
    { class: "row end" },
    button("First page", first, { disabled: after === "" }),
    button("Previous page", previous, { disabled: after === "" || passed.length === 0 }),
    button("Next page", next, { disabled: !found.next }),
  );
}

function keyView({ found, history, whole }, context) {
  const seek = (event) => {
    event.preventDefault();
    context.go({ key: new FormData(event.target).get("key"), view: "key" });
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
    whole === false ? h("p", { class: "quiet" }, "Reading took too long, so later checkpoints are missing here.") : null,
  );
}

function diffView({ diff }, kept, catalogue, context) {
  const others = kept.filter((one) => one.checkpoint < catalogue.checkpoint);
  const values = [["", "choose one"], ...others.map((one) => [String(one.checkpoint), `${one.checkpoint}, ${dateTime(one.completed)}`])];
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "row" }, select("Compare with", values, context.query.before || "", (before) => context.go({ before })), h("span", { class: "quiet" }, `Checkpoint ${catalogue.checkpoint} is the later one.`)),
    diff === undefined && others.length === 0 ? h("p", { class: "empty" }, "No earlier checkpoint is kept: execution.checkpointing.num-retained says how many are.") : null,
    diff === undefined
      ? null
      : diff.states.map((state) =>
          h(
            "div",
            { class: "stack" },
            h("p", null, `${count(state.added)} added, ${count(state.changed)} changed, ${count(state.removed)} removed${state.complete ? "" : " so far; the state is too large to compare all of it"}.${cut(state)}`),
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

/** Say how many changes are not shown. */
function cut({ added, changed, removed, changes }) {
  const all = added + changed + removed;
  return changes.length < all ? ` The first ${count(changes.length)} of ${count(all)} are shown.` : "";
}
