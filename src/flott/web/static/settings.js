/**
 * Keys and values of a configuration as a table with a search.
 */

import { h } from "./elements.js";
import { table } from "./parts.js";

export function settingsTable(settings, context, note) {
  const sought = (context.state.sought || "").toLowerCase();
  const rows = settings.filter(({ key, value }) => `${key} ${value}`.toLowerCase().includes(sought)).sort((one, other) => one.key.localeCompare(other.key));
  const seek = (event) => {
    context.state.sought = event.target.value;
    context.update();
  };
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h("input", { type: "search", placeholder: "Find a setting", "aria-label": "Find a setting", value: context.state.sought || "", on: { input: seek } }),
      h("span", { class: "quiet" }, note),
    ),
    table({
      caption: "Settings",
      rows,
      key: (row) => row.key,
      empty: settings.length === 0 ? "Everything is at its default." : "No setting has this text.",
      columns: [
        { title: "Key", cell: (row) => h("code", null, row.key) },
        { title: "Value", wide: true, cell: (row) => h("code", null, row.value) },
      ],
    }),
  );
}
