/**
 * Overview: the cluster in numbers, and every job with its status, rates and ages.
 */

import { jobAddress } from "../addresses.js";
import { h } from "../elements.js";
import { NONE, age, bytes, count, isNumber, lag, percent, rate, shortId } from "../format.js";
import { SERIES_STEP, rarely } from "../live.js";
import { ENDED, badge, card, cardWith, choice, fact, facts, link, moment, table, tag } from "../parts.js";
import { sparkline } from "../pictures/sparkline.js";
import { get, now } from "../rest.js";

export default { title: () => "Overview", load, view };

async function load(context, signal) {
  const [live, series] = await Promise.all([
    get("/flott/live", { signal }),
    rarely(context.state, "/flott/series", SERIES_STEP, (path) => get(path, { signal })),
  ]);
  return { live, series: series.jobs };
}

function view({ live, series }, context) {
  const running = live.jobs.filter((job) => !ENDED.has(job.status));
  const ended = live.jobs.filter((job) => ENDED.has(job.status)).sort((one, other) => other.end - one.end);
  const taken = live["slots-total"] - live["slots-available"];
  const total = running.reduce((sum, job) => sum + (job["records-per-second"] || 0), 0);
  const failed = ended.filter((job) => job.status === "FAILED").length;
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "Overview"), h("span", { class: "quiet" }, `Flott ${live["flott-version"]}, up for ${age(now() - live.started)}`)),
    facts(
      fact("Jobs running", count(running.length), running.some((job) => job.status === "RESTARTING") ? "some are restarting" : null),
      fact("Records read", rate(total), "by all jobs"),
      fact("Slots in use", `${count(taken)} of ${count(live["slots-total"])}`, `${count(live["slots-available"])} free`),
      fact("Executors", count(live.executors), link("memory and subtasks", "#/executors")),
      fact("Jobs ended", count(ended.length), failed > 0 ? `${failed} failed` : "none failed", failed > 0 ? "bad" : ""),
    ),
    live.jobs.length === 0 ? firstJob() : null,
    running.length > 0 ? card("Running", runningTable(running, series)) : null,
    ended.length > 0 ? endedCard(ended, context) : null,
  );
}

function firstJob() {
  return card(
    "No job yet",
    h("p", null, "Run a program from a shell:"),
    h("pre", { class: "code" }, `flott run --target session --detached my_program.py`),
    h("p", null, "or upload it here: ", link("submit a program", "#/submit"), "."),
  );
}

function name(job) {
  return h(
    "div",
    { class: "job-name" },
    link(job.name, jobAddress(job.id)),
    h("span", { class: "quiet id" }, shortId(job.id)),
    job.batch ? tag("batch") : null,
    job["waiting-for"] ? h("span", { class: "quiet" }, `waits for ${job["waiting-for"]}`) : null,
  );
}

function runningTable(jobs, series) {
  return table({
    caption: "Running jobs",
    rows: jobs,
    key: (job) => job.id,
    columns: [
      { title: "Job", wide: true, cell: name },
      { title: "Status", cell: (job) => badge(job.status) },
      { title: "Running for", number: true, cell: (job) => age(now() - job.start) },
      { title: "Records read", number: true, cell: (job) => rate(job["records-per-second"]) },
      {
        title: "Last minutes",
        name: "chart-cell",
        cell: (job) => sparkline((series[job.id] || {})["records-per-second"], `records per second of ${job.name} in the last minutes`),
      },
      { title: "Busiest", number: true, hint: "the busy time of the busiest vertex", cell: (job) => percent(job.busy) },
      { title: "Watermark lag", number: true, cell: (job) => lag(job.watermark, now()) },
      { title: "Checkpoint age", number: true, cell: (job) => (job["last-checkpoint"] > 0 ? age(now() - job["last-checkpoint"]) : NONE) },
      { title: "State", number: true, cell: (job) => bytes(job["state-size"]) },
      { title: "Restarts", number: true, cell: (job) => (job.restarts > 0 ? link(count(job.restarts), jobAddress(job.id, "failure")) : "0") },
    ],
  });
}

function endedCard(jobs, context) {
  const shown = context.state.ended || "all";
  const choose = (value) => {
    context.state.ended = value;
    context.update();
  };
  const values = [["all", "All"], ["FINISHED", "Finished"], ["FAILED", "Failed"], ["CANCELED", "Canceled"]];
  const rows = shown === "all" ? jobs : jobs.filter((job) => job.status === shown);
  return cardWith("Ended", choice("Which ended jobs", values, shown, choose), endedTable(rows));
}

function endedTable(jobs) {
  return table({
    caption: "Ended jobs",
    rows: jobs,
    key: (job) => job.id,
    empty: "No job ended this way.",
    columns: [
      { title: "Job", wide: true, cell: name },
      { title: "Status", cell: (job) => (job.status === "FAILED" ? link(badge(job.status), jobAddress(job.id, "failure")) : badge(job.status)) },
      { title: "Ended", cell: (job) => moment(job.end) },
      { title: "Ran for", number: true, cell: (job) => (isNumber(job.end) && job.end > 0 ? age(job.end - job.start) : NONE) },
      { title: "Restarts", number: true, cell: (job) => count(job.restarts) },
    ],
  });
}
