/**
 * The result of a statement: rows as they stand, their changes, a chart, or a plan.
 */

import { jobAddress } from "../addresses.js";
import { copy } from "../dialogs.js";
import { h } from "../elements.js";
import { count, duration } from "../format.js";
import { button, choice, link, pictured, select, table } from "../parts.js";
import { graph } from "../pictures/graph.js";
import { valueChart } from "../pictures/value_chart.js";
import { drawn, sections } from "./plan.js";
import { chartPoints, csv, isNumeric, typeText } from "./rows.js";
import { aboutRows, problemOf } from "./run.js";

const PAGE = 100;
const MAX_COLUMNS = 60;
const MAX_TEXT = 400;
const KINDS = { INSERT: ["+I", "inserted", "good"], UPDATE_BEFORE: ["−U", "before an update", "warn"], UPDATE_AFTER: ["+U", "after an update", "warn"], DELETE: ["−D", "deleted", "bad"] };
const STATUS = { waiting: "waits", running: "starting", reading: "running", done: "done", failed: "failed", stopped: "stopped" };

export function statusOf(result) {
  return STATUS[result.status];
}

/** `update` shows the result again after the reader has chosen something. */
export function resultView(result, update) {
  const problem = problemOf(result);
  return h(
    "div",
    { class: "stack", key: `result-${result.number}` },
    head(result),
    problem === null ? null : h("p", { class: "problem", role: "alert" }, problem),
    content(result, update),
  );
}

function head(result) {
  const elapsed = result.elapsed;
  return h(
    "p",
    { class: "row result-head" },
    h("span", { class: `badge ${{ failed: "bad", reading: "good", running: "warn", waiting: "warn" }[result.status] || "calm"}` }, statusOf(result)),
    result.columns.length > 0 && !result.plain && !isText(result) && (result.isQuery || result.job === null) ? h("span", null, aboutRows(result)) : null,
    elapsed === null ? null : h("span", { class: "quiet" }, duration(elapsed)),
    result.job !== null && /^[0-9a-f]{32}$/i.test(result.job) ? link(`Job ${result.job.slice(0, 8)}`, jobAddress(result.job)) : null,
  );
}

function content(result, update) {
  if (result.plain) return h("p", null, "The statement succeeded.");
  if (result.columns.length === 0) return result.active ? h("p", { class: "quiet" }, "The statement is being run…") : null;
  if (result.job !== null && !result.isQuery) return h("p", null, "The job was started, and goes on when this page is closed.");
  const plan = planOf(result);
  if (plan !== null) return planView(plan);
  if (isText(result)) return h("pre", { class: "code" }, result.rows.all().map(([text]) => text).join("\n"));
  const views = [["rows", "Rows"], ["changes", "Changes"], ["chart", "Chart"]];
  result.view ||= "rows";
  const choose = (view) => {
    result.view = view;
    result.page = 0;
    update();
  };
  return [
    h(
      "div",
      { class: "head" },
      result.isQuery ? choice("What is shown", views, result.view, choose) : h("span", null),
      button("Copy as CSV", (event) => copy(csv(result.columns, result.rows.all()), event.target)),
    ),
    result.view === "rows" ? rowsView(result, update) : result.view === "changes" ? changesView(result, update) : chartView(result, update),
  ];
}

function isText(result) {
  return !result.isQuery && result.columns.length === 1 && result.columns[0].name === "result";
}

function planOf(result) {
  if (!isText(result) || result.rows.size === 0) return null;
  const [[text]] = result.rows.all();
  return typeof text === "string" && sections(text).length > 0 ? text : null;
}

function columnsOf(result) {
  return result.columns.slice(0, MAX_COLUMNS).map((column, index) => ({
    title: column.name,
    head: h("span", null, column.name, h("span", { class: "type" }, typeText(column))),
    number: isNumeric(column),
    cell: (row) => value(row[index]),
  }));
}

/** A value as text; NULL is told apart from the text "NULL". */
export function value(text) {
  if (text === null) return h("span", { class: "null" }, "NULL");
  const shown = String(text);
  return shown.length > MAX_TEXT ? h("span", { title: `${shown.length} characters` }, `${shown.slice(0, MAX_TEXT)}…`) : shown;
}

function rowsView(result, update) {
  const rows = result.rows.all();
  return paged("Rows", rows, columnsOf(result), result, update, result.active ? "No rows yet." : "The result has no rows.");
}

function changesView(result, update) {
  const changes = [...result.rows.changes].reverse();
  const kind = {
    title: "Kind",
    cell: (change) => h("span", { class: `tag kind ${KINDS[change.kind][2]}`, title: KINDS[change.kind][1] }, KINDS[change.kind][0]),
  };
  const own = columnsOf(result).map((column) => ({ ...column, cell: (change) => column.cell(change.fields) }));
  const columns = [{ title: "Change", cell: (change) => count(change.number) }, kind, ...own];
  const cut = result.rows.count - changes.length;
  return [
    cut > 0 ? h("p", { class: "quiet" }, `The last ${count(changes.length)} changes are kept, the newest first.`) : h("p", { class: "quiet" }, "The newest first."),
    paged("Changes", changes, columns, result, update, "No changes yet."),
  ];
}

function paged(caption, rows, columns, result, update, empty) {
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const last = pages - 1;
  const at = result.page === "last" ? last : Math.min(result.page, last);
  const turn = (page) => () => {
    result.page = page;
    update();
  };
  const shown = rows.slice(at * PAGE, (at + 1) * PAGE);
  const hidden = result.columns.length - MAX_COLUMNS;
  return h(
    "div",
    { class: "stack tight result-table" },
    hidden > 0 ? h("p", { class: "quiet" }, `The first ${MAX_COLUMNS} of ${result.columns.length} columns are shown; CSV has all.`) : null,
    table({ caption, columns, rows: shown, empty }),
    pages > 1
      ? h(
          "div",
          { class: "row" },
          button("First", turn(0), { disabled: at === 0 }),
          button("Back", turn(Math.max(0, at - 1)), { disabled: at === 0 }),
          h("span", { class: "quiet" }, `${count(at * PAGE + 1)}–${count(at * PAGE + shown.length)} of ${count(rows.length)}`),
          button("Next", turn(at + 1), { disabled: at === last }),
          button("Last", turn("last"), { disabled: at === last && result.page === "last" }),
        )
      : null,
  );
}

function chartView(result, update) {
  const numeric = result.columns.filter(isNumeric).map((column) => column.name);
  if (numeric.length === 0) return h("p", { class: "empty" }, "A chart needs a column of numbers.");
  const other = result.columns.find((column) => !isNumeric(column));
  const along = other !== undefined ? other.name : numeric.length > 1 ? numeric[0] : "";
  const chart = (result.chart ||= {
    x: along,
    y: [numeric.find((name) => name !== along)],
    kind: other !== undefined && /TIMESTAMP|DATE/.test(other.logicalType.type) ? "line" : "bar",
  });
  const set = (name) => (chosen) => {
    chart[name] = chosen;
    update();
  };
  const toggle = (name) => (event) => {
    chart.y = event.target.checked ? [...chart.y, name].slice(-8) : chart.y.filter((one) => one !== name);
    update();
  };
  const { points, cut, continuous } = chartPoints(result.columns, result.rows.all(), chart.x, chart.y, chart.kind === "bar" ? 100 : 2000);
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row chart-choices" },
      choice("Kind of chart", [["bar", "Bars"], ["line", "Lines"]], chart.kind, set("kind")),
      select("Along", [["", "number of the row"], ...result.columns.map((column) => [column.name, column.name])], chart.x, set("x")),
      h("div", { class: "row", role: "group", "aria-label": "Values" }, numeric.slice(0, 12).map((name) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chart.y.includes(name), on: { change: toggle(name) } }), h("span", null, name)))),
    ),
    cut > 0 ? h("p", { class: "quiet" }, `The last ${count(points.length)} rows are drawn; ${count(cut)} before them are not.`) : null,
    chart.y.length === 0
      ? h("p", { class: "empty" }, "Choose a column of numbers.")
      : pictured(
          valueChart({ points, names: chart.y, kind: chart.kind, continuous, label: `${chart.y.join(", ")}${chart.x === "" ? "" : ` by ${chart.x}`}` }),
          "The chart",
          () =>
            table({
              caption: "The chart",
              rows: points,
              columns: [
                { title: chart.x || "Row", cell: (point) => point.label },
                ...chart.y.map((name, index) => ({ title: name, number: true, cell: (point) => (point.values[index] === null ? value(null) : String(point.values[index])) })),
              ],
            }),
        ),
  );
}

function planView(text) {
  const picture = drawn(text);
  const [syntax, physical, ...rest] = sections(text);
  const first = physical || syntax;
  return h(
    "div",
    { class: "stack" },
    picture === null ? null : graph({ ...picture, chosen: null, open: () => {} }),
    h("h3", null, first.title),
    h("pre", { class: "code plan-text", tabindex: "0" }, first.text),
    [syntax, ...rest]
      .filter((one) => one !== first)
      .map((one) => h("details", { class: "behind" }, h("summary", null, one.title), h("pre", { class: "code plan-text", tabindex: "0" }, one.text))),
  );
}

