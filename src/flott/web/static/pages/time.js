/**
 * Time: what holds the watermark back, in sentences and as the path that event time takes through the job.
 */

import { h } from "../elements.js";
import { NONE, age, dateTime, duration, exactWatermark } from "../format.js";
import { ENDED, button, card, cardWith, moment, pictured, table } from "../parts.js";
import { pathOf, scaleOf, timePath } from "../pictures/time_path.js";
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
  const { nodes } = pathOf(report.places);
  const scale = scaleOf([...nodes.values()]);
  return h(
    "div",
    { class: "stack" },
    card("What holds event time back", findings(report)),
    cardWith(
      `Event time after epoch ${report.epoch}`,
      button("Ask again", context.refresh),
      h("p", { class: "quiet" }, `From the splits of the sources to the sinks. The marked line is what holds event time back.${scale !== null && scale.span > 0 ? ` From the slowest to the furthest it is ${duration(scale.span)}.` : ""}`),
      pictured(timePath(report.places, now()), "Event time", () => placeTable(report.places)),
    ),
  );
}

function findings(report) {
  if (report.holds.length === 0) return h("p", null, "Nothing holds event time back.");
  return report.holds.map((hold) =>
    h(
      "div",
      { class: "stack tight" },
      h("p", null, h("strong", null, sentence(hold.finding_parts))),
      hold.remedy_parts.length > 0 ? h("p", { class: "quiet" }, sentence(hold.remedy_parts)) : null,
    ),
  );
}

/** A sentence with its moments in the viewer's zone. */
function sentence(parts) {
  return parts.map((part) => (typeof part === "string" ? part : moment(part.at, part.exact ? exactWatermark(part.at) : dateTime(part.at))));
}

/** The same as a table: every place below what it feeds. */
function placeTable(places) {
  const flat = (list, depth, feeds) => list.flatMap((place) => [{ ...place, depth, feeds }, ...flat(place.inputs, depth + 1, place.name)]);
  return table({
    caption: "Event time by place",
    rows: flat(places, 0, ""),
    columns: [
      { title: "Place", wide: true, cell: (place) => h("span", { css: { "padding-left": `${place.depth * 16}px` } }, place.name) },
      { title: "Feeds", cell: (place) => place.feeds },
      { title: "Watermark", cell: (place) => exactWatermark(place.watermark) },
      { title: "Holds", cell: (place) => (place.holds ? "yes" : "no") },
      { title: "Idle", cell: (place) => (place.idle ? "yes" : "no") },
      { title: "Paused", cell: (place) => (place.paused ? "yes" : "no") },
      { title: "Unmoved for", number: true, cell: (place) => (place.since === null ? NONE : age(now() - place.since)) },
    ],
  });
}
