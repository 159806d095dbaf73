/**
 * Overview: the cluster in numbers, and every job with its status, rates and ages.
 */

import { jobAddress } from "../addresses.js";
import { h } from "../elements.js";
import { age, bytes, count, isNumber, lag, lagOf, percent, rate, shortId } from "../format.js";
import { SERIES_STEP, rarely } from "../live.js";
import { ENDED, badge, card, cardWith, choice, fact, facts, link, moment, pictured, table, tag } from "../parts.js";
import { minuteMeans, sparkline } from "../pictures/sparkline.js";
import { get, now } from "../rest.js";
import { sorted } from "../sorting.js";

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
  const sought = (context.state.sought || "").trim().toLowerCase();
  const isSought = (job) => `${job.name} ${job.id}`.toLowerCase().includes(sought);
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "Overview"), h("span", { class: "quiet" }, `Flott ${live["flott-version"]}, up for ${age(now() - live.started)}`)),
    facts(
      fact("Jobs running", count(running.length), running.some((job) => job.status === "RESTARTING") ? "some are restarting" : null),
      fact("Records read", rate(total), "by all jobs"),
      fact("Slots in use", `${count(taken)} of ${count(live["slots-total"])}`, `${count(live["slots-available"])} free`),
      fact("Executors", count(live.executors), link("memory and subtasks", "#/executors")),
      fact("Jobs ended", count(ended.length), failed > 0 ? h("span", { class: "bad-text" }, `${failed} failed`) : "none failed"),
    ),
    live.jobs.length === 0 ? firstJob() : null,
    live.jobs.length > 1 ? search(context) : null,
    running.length > 0 ? runningCard(running.filter(isSought), series, context) : null,
    ended.length > 0 ? endedCard(ended.filter(isSought), context) : null,
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

function search(context) {
  const seek = (event) => {
    context.state.sought = event.target.value;
    context.update();
  };
  return h("input", { type: "search", class: "seek", placeholder: "Find a job by its name or id", "aria-label": "Find a job", value: context.state.sought || "", on: { input: seek } });
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

const RATE = "records-per-second";

function runningCard(jobs, series, context) {
  const { rows, columns } = sorted(jobs, runningColumns(series), context, "running");
  const running = table({ caption: "Running jobs", rows, columns, key: (job) => job.id, empty: "No running job has this in its name or id." });
  return card("Running", rows.length === 0 ? running : pictured(running, "The small charts", () => minuteTable(rows, series)));
}

function runningColumns(series) {
  const checkpointAge = (job) => (job["last-checkpoint"] > 0 ? now() - job["last-checkpoint"] : null);
  return [
    { title: "Job", wide: true, by: (job) => job.name, cell: name },
    { title: "Status", by: (job) => job.status, cell: (job) => badge(job.status) },
    { title: "Running for", number: true, name: "spare", by: (job) => now() - job.start, cell: (job) => age(now() - job.start) },
    { title: "Records read", number: true, by: (job) => job[RATE], cell: (job) => rate(job[RATE]) },
    { title: "Last 10 minutes", name: "chart-cell", hint: "records read per second; equal widths are equal times", cell: (job) => lastMinutes(job, series[job.id]) },
    { title: "Busiest", number: true, name: "spare", hint: "the busy time of the busiest vertex", by: (job) => job.busy, cell: (job) => percent(job.busy) },
    { title: "Watermark lag", number: true, by: (job) => lagOf(job.watermark, now()), cell: (job) => lag(job.watermark, now()) },
    { title: "Checkpoint age", number: true, by: checkpointAge, cell: (job) => age(checkpointAge(job)) },
    { title: "State", number: true, name: "spare", by: (job) => job["state-size"], cell: (job) => bytes(job["state-size"]) },
    { title: "Restarts", number: true, name: "spare", by: (job) => job.restarts, cell: (job) => (job.restarts > 0 ? link(count(job.restarts), jobAddress(job.id, "failure")) : "0") },
  ];
}

function lastMinutes(job, points) {
  const { at, [RATE]: values } = points || { at: [], [RATE]: [] };
  return sparkline({ at, values, format: rate, label: `Records per second of ${job.name} in the last ten minutes` });
}

/** What the small charts show, as the mean of each minute. */
function minuteTable(jobs, series) {
  const rows = jobs.filter((job) => series[job.id]).map((job) => ({ job, means: minuteMeans(series[job.id].at, series[job.id][RATE]) }));
  return table({
    caption: "Records per second, the mean of each minute",
    rows,
    key: (row) => row.job.id,
    empty: "Nothing is known yet.",
    columns: [
      { title: "Job", wide: true, cell: (row) => row.job.name },
      ...Array.from({ length: 10 }, (_, minute) => ({
        title: minute === 0 ? "Last minute" : `${minute} min ago`, number: true, cell: (row) => rate(row.means[minute]),
      })),
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
  return cardWith("Ended", choice("Which ended jobs", values, shown, choose), endedTable(rows, context));
}

function endedTable(jobs, context) {
  const ran = (job) => (isNumber(job.end) && job.end > 0 ? job.end - job.start : null);
  const { rows, columns } = sorted(
    jobs,
    [
      { title: "Job", wide: true, by: (job) => job.name, cell: name },
      { title: "Status", by: (job) => job.status, cell: (job) => (job.status === "FAILED" ? link(badge(job.status), jobAddress(job.id, "failure")) : badge(job.status)) },
      { title: "Ended", by: (job) => job.end, cell: (job) => moment(job.end) },
      { title: "Ran for", number: true, by: ran, cell: (job) => age(ran(job)) },
      { title: "Restarts", number: true, by: (job) => job.restarts, cell: (job) => count(job.restarts) },
    ],
    context,
    "ended",
  );
  return table({ caption: "Ended jobs", rows, columns, key: (job) => job.id, empty: "No job ended this way, or has this in its name or id." });
}
