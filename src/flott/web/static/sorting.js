/**
 * Tables that the reader sorts: a click on the head of a column sorts by it, a second one turns the order around. The
 * order is kept in the state of the page.
 */

import { h } from "./elements.js";

/**
 * Return { rows, columns } for `table`: the rows in the chosen order, and columns whose heads are buttons. A column with
 * `by(row)` can be sorted; numbers begin with the largest, texts with the first. Rows that are equal stay in their order.
 */
export function sorted(rows, columns, context, name) {
  const chosen = (context.state.sorting ||= {})[name] || null;
  const by = chosen === null ? undefined : columns.find((column) => column.title === chosen.title);
  return {
    rows: by === undefined ? rows : inOrder(rows, by.by, chosen.down),
    columns: columns.map((column) => (column.by === undefined ? column : { ...column, ...head(column, chosen, context, name) })),
  };
}

/** Return the rows in the order of a value; those without one are last. */
export function inOrder(rows, by, down) {
  const known = rows.filter((row) => !isMissing(by(row)));
  const order = (one, other) => (typeof by(one) === "string" ? by(one).localeCompare(by(other)) : by(one) - by(other));
  known.sort((one, other) => (down ? order(other, one) : order(one, other)));
  return [...known, ...rows.filter((row) => isMissing(by(row)))];
}

function isMissing(value) {
  return value === null || value === undefined || Number.isNaN(value);
}

function head(column, chosen, context, name) {
  const isChosen = chosen !== null && chosen.title === column.title;
  const down = isChosen ? chosen.down : null;
  const choose = () => {
    context.state.sorting[name] = { title: column.title, down: isChosen ? !chosen.down : Boolean(column.number) };
    context.update();
  };
  return {
    sort: isChosen ? (down ? "descending" : "ascending") : "none",
    head: h("button", { class: "sorter", type: "button", on: { click: choose } }, column.title, h("span", { class: "direction", "aria-hidden": "true" }, isChosen ? (down ? "▾" : "▴") : "")),
  };
}
