/**
 * Time: what holds the watermark back. The tree follows event time from the sinks up to the splits of sources.
 */

import { h } from "../elements.js";
import { NONE, age, duration, exactWatermark, lagOf } from "../format.js";
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
    cardWith(`Event time after epoch ${report.epoch}`, button("Ask again", context.refresh), tree(report.places), places(report)),
  );
}

function findings(report) {
  if (report.holds.length === 0) return h("p", null, "Nothing holds event time back.");
  return report.holds.map((hold) =>
    h(
      "div",
      { class: "stack tight" },
      h("p", null, h("strong", null, hold.finding)),
      hold.remedy ? h("p", { class: "quiet" }, hold.remedy) : null,
    ),
  );
}

/** Every place as a line: its name under what it feeds, its watermark, and where that is between the first and the last. */
function tree(list) {
  const rows = flat(list, 0);
  const known = rows.map((place) => place.watermark).filter(isTime);
  const first = Math.min(...known);
  const span = Math.max(...known) - first;
  return [
    h("p", { class: "quiet" }, known.length > 1 ? `The points are watermarks; from the slowest to the fastest it is ${duration(span)}.` : " "),
    h("ul", { class: "places" }, rows.map((place) => line(place, first, span))),
  ];
}

function flat(list, depth) {
  return list.flatMap((place) => [{ ...place, depth }, ...flat(place.inputs, depth + 1)]);
}

function isTime(value) {
  return lagOf(value, 0) !== null;
}

function line(place, first, span) {
  const share = isTime(place.watermark) && span > 0 ? (place.watermark - first) / span : null;
  return h(
    "li",
    { class: place.holds ? "place holds" : "place" },
    h("span", { class: "name", css: { "padding-left": `${place.depth * 18}px` } }, place.depth > 0 ? h("span", { class: "branch", "aria-hidden": "true" }, "↳ ") : null, place.name),
    h("span", null, exactWatermark(place.watermark)),
    share === null
      ? h("span", { class: "quiet" }, " ")
      : h("span", { class: "scale", role: "img", "aria-label": `${duration(place.watermark - first)} ahead of the slowest`, title: `${duration(place.watermark - first)} ahead of the slowest` }, h("span", { css: { left: `${share * 100}%` } })),
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
  return h(
    "details",
    { class: "behind" },
    h("summary", null, "Event time as a table"),
    table({
      caption: "Event time by place",
      rows: flat(report.places, 0),
      columns: [
        { title: "Place", wide: true, cell: (place) => `${"· ".repeat(place.depth)}${place.name}` },
        { title: "Watermark", cell: (place) => exactWatermark(place.watermark) },
        { title: "Holds", cell: (place) => (place.holds ? "yes" : "no") },
        { title: "Idle", cell: (place) => (place.idle ? "yes" : "no") },
        { title: "Paused", cell: (place) => (place.paused ? "yes" : "no") },
        { title: "Unmoved for", number: true, cell: (place) => (place.since === null ? NONE : age(now() - place.since)) },
      ],
    }),
  );
}
