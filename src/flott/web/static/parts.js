/**
 * Small pieces that several pages use: badges of status, tables, numbers with a label, empty states.
 */

import { h } from "./elements.js";
import { NONE, dateTime } from "./format.js";

/** Which colour a status has. Colour always comes with the word. */
const MEANINGS = {
  RUNNING: "good", FINISHED: "calm", COMPLETED: "good", CANCELED: "calm", CANCELLING: "warn", CANCELING: "warn",
  FAILED: "bad", FAILING: "bad", RESTARTING: "warn", CREATED: "calm", INITIALIZING: "warn", SCHEDULED: "warn",
  DEPLOYING: "warn", IN_PROGRESS: "warn", SUSPENDED: "warn", RECONCILING: "warn",
};

export const ENDED = new Set(["FINISHED", "CANCELED", "FAILED"]);

export function badge(status) {
  return h("span", { class: `badge ${MEANINGS[status] || "calm"}` }, String(status).toLowerCase().replace("_", " "));
}

/** A tag: a short word with a border. */
export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}

/** A number with its label, and a line below. */
export function fact(label, value, note = null, kind = "") {
  return h(
    "div",
    { class: `fact ${kind}` },
    h("span", { class: "label" }, label),
    h("span", { class: "value" }, value),
    note === null ? null : h("span", { class: "note" }, note),
  );
}

export function facts(...list) {
  return h("div", { class: "facts" }, ...list);
}

/** A moment, with the machine-readable form for assistive software and copying. */
export function moment(ms, shown = dateTime(ms)) {
  return ms > 0 ? h("time", { datetime: new Date(ms).toISOString(), title: dateTime(ms) }, shown) : NONE;
}

/**
 * A table. `columns` are { title, cell(row), number, wide, hint, head, sort }; `head` is an element to show for the title
 * and `sort` the order of the rows by it; `key(row)` identifies rows; `caption` names the table for screen readers. A row may be opened with `onRow(row)`; the first cell then holds a button or a link.
 */
export function table({ caption, columns, rows, key = null, empty = "Nothing here.", rowClass = null }) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, columns.map(heading))),
      h(
        "tbody",
        null,
        rows.map((row, index) =>
          h(
            "tr",
            { key: key ? key(row) : index, class: rowClass ? rowClass(row) : null },
            columns.map((column) => h("td", { class: kind(column), "data-title": column.title }, column.cell(row, index))),
          ),
        ),
      ),
    ),
  );
}

function heading(column) {
  return h("th", { scope: "col", class: kind(column), title: column.hint, "aria-sort": column.sort }, column.head ?? column.title);
}

function kind(column) {
  return [column.number ? "number" : "", column.wide ? "wide" : "", column.name || ""].join(" ").trim() || null;
}

/** A picture with the table behind it: every picture can be read as numbers. */
export function pictured(picture, title, makeTable) {
  return h(
    "div",
    { class: "pictured" },
    picture,
    h("details", { class: "behind" }, h("summary", null, `${title} as a table`), makeTable()),
  );
}

export function card(title, ...content) {
  return h("section", { class: "card" }, title === null ? null : h("h2", null, title), content);
}

/** A card whose head has something at its end, such as buttons. */
export function cardWith(title, aside, ...content) {
  return h("section", { class: "card" }, h("div", { class: "head" }, h("h2", null, title), aside), content);
}

export function button(text, click, attributes = {}) {
  return h("button", { class: "button", type: "button", on: { click }, ...attributes }, text);
}

export function link(text, href, attributes = {}) {
  return h("a", { href, ...attributes }, text);
}

/** The name of a vertex, whose operators REST joins by "->", as all pages write it. */
export function arrows(name) {
  return String(name).replaceAll(" -> ", " → ");
}

/** A sentence instead of content. */
export function empty(...content) {
  return h("div", { class: "empty" }, content);
}

/** A choice between a few values, as buttons. */
export function choice(label, values, chosen, choose) {
  return h(
    "div",
    { class: "choice", role: "group", "aria-label": label },
    values.map(([value, text]) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(value === chosen), on: { click: () => choose(value) } },
        text,
      ),
    ),
  );
}

export function select(label, values, chosen, choose, attributes = {}) {
  return h(
    "label",
    { class: "inline" },
    h("span", { class: "label" }, label),
    h(
      "select",
      { value: chosen, on: { change: (event) => choose(event.target.value) }, ...attributes },
      offered(values, chosen).map(([value, text]) => h("option", { value }, text)),
    ),
  );
}

/** The values to choose from; a chosen one that is gone meanwhile is still named. */
function offered(values, chosen) {
  const isKnown = values.some(([value]) => String(value) === String(chosen));
  return isKnown || chosen === undefined || chosen === null ? values : [...values, [chosen, `${chosen} (not there any more)`]];
}
