/**
 * Time: what holds the watermark back. The tree follows event time from the sinks up to the splits of sources.
 */

import { h } from "../elements.js";
import { NONE, age, watermark } from "../format.js";
import { ENDED, card, cardWith, button, table, tag } from "../parts.js";
import { getOrNull, now } from "../rest.js";
import { jobPage } from "./job_frame.js";

export default jobPage({ tab: "time", load, view, pause: 5000 });

function load(context, signal, path) {
  return getOrNull(`${path}/flott/watermark`, { signal });
}

function view(report, context, job) {
  if (report === null) {
    const why = ENDED.has(job.status) ? "The job has ended, so nothing holds its event time back." : "The job has no report on event time yet.";
    return card("Event time", h("p", { class: "empty" }, why));
  }
  return h(
    "div",
    { class: "stack" },
    card("What holds event time back", findings(report)),
    cardWith("Event time after epoch ".concat(report.epoch), button("Ask again", context.refresh), tree(report.places), places(report)),
  );
}

function findings(report) {
  if (report.holds.length === 0) return h("p", null, "Nothing holds event time back.");
  return report.holds.map((hold) =>
    h(
      "div",
      { class: "stack tight" },
      h("p", null, h("strong", null, hold.operator), hold.split === null ? "" : `, split ${hold.split}`, ": ", hold.finding),
      hold.remedy ? h("p", { class: "quiet" }, hold.remedy) : null,
    ),
  );
}

function tree(list) {
  return h("ul", { class: "tree" }, list.map((place) => h("li", null, box(place), place.inputs.length > 0 ? tree(place.inputs) : null)));
}

function box(place) {
  return h(
    "div",
    { class: place.holds ? "place holds" : "place" },
    h("span", { class: "name" }, place.name),
    h("span", null, watermark(place.watermark)),
    h(
      "span",
      { class: "row" },
      place.holds ? tag("holds it back", "warn") : null,
      place.idle ? tag("idle") : null,
      place.paused ? tag("paused") : null,
      place.since === null ? null : h("span", { class: "quiet" }, `unmoved for ${age(now() - place.since)}`),
    ),
  );
}

/** The same as a table: every place with its depth. */
function places(report) {
  const rows = [];
  const walk = (list, depth) => {
    for (const place of list) {
      rows.push({ ...place, depth });
      walk(place.inputs, depth + 1);
    }
  };
  walk(report.places, 0);
  return h(
    "details",
    { class: "behind" },
    h("summary", null, "Event time as a table"),
    table({
      caption: "Event time by place",
      rows,
      columns: [
        { title: "Place", wide: true, cell: (place) => `${"· ".repeat(place.depth)}${place.name}` },
        { title: "Watermark", cell: (place) => watermark(place.watermark) },
        { title: "Holds", cell: (place) => (place.holds ? "yes" : "no") },
        { title: "Idle", cell: (place) => (place.idle ? "yes" : "no") },
        { title: "Paused", cell: (place) => (place.paused ? "yes" : "no") },
        { title: "Unmoved for", number: true, cell: (place) => (place.since === null ? NONE : age(now() - place.since)) },
      ],
    }),
  );
}
