/**
 * What all pages of a job share: its name, status and numbers, the orders, and the tabs.
 */

import { jobAddress } from "../addresses.js";
import { confirm, checkbox, field } from "../dialogs.js";
import { h } from "../elements.js";
import { NONE, age, bytes, clockTime, count, dateTime, lag, rate, watermark } from "../format.js";
import { ENDED, badge, button, fact, facts, link, moment, tag } from "../parts.js";
import { features, get, now, outcome, part, patch, post } from "../rest.js";

const TABS = [
  ["", "Graph"],
  ["timeline", "Timeline"],
  ["time", "Time"],
  ["checkpoints", "Checkpoints"],
  ["state", "State"],
  ["failure", "Failure"],
  ["preview", "Preview"],
  ["log", "Log"],
  ["configuration", "Configuration"],
];

/**
 * Make a page of a job: `tab` is its address, `load(context, signal, job)` asks for its own data beside the job, and
 * `view(data, context, job)` shows it below the head.
 */
export function jobPage({ tab, load = async () => null, view, pause }) {
  const name = TABS.find(([address]) => address === tab)[1];
  return {
    pause,
    title: (context, data) => `${data ? data.job.name : "Job"}: ${name.toLowerCase()}`,
    load: async (context, signal) => {
      const path = `/jobs/${part(context.params.job)}`;
      const [live, may, own] = await Promise.all([get(`${path}/flott/live`, { signal }), features(), load(context, signal, path)]);
      return { job: { ...live.job, ...live, job: undefined, may }, own };
    },
    view: ({ job, own }, context) =>
      h("div", { class: "stack" }, breadcrumb(job, tab, name), head(job, context), numbers(job), tabs(job, tab), view(own, context, job)),
  };
}

/** Where this page is: below the overview and, if it is not its graph, below the job. */
function breadcrumb(job, tab, name) {
  return h(
    "nav",
    { class: "breadcrumb", "aria-label": "Where this page is" },
    link("Overview", "#/"),
    h("span", { "aria-hidden": "true" }, "›"),
    tab === "" ? h("span", null, job.name) : link(job.name, jobAddress(job.id)),
    tab === "" ? null : [h("span", { "aria-hidden": "true" }, "›"), h("span", null, name)],
  );
}

function head(job, context) {
  return h(
    "div",
    { class: "title" },
    h("div", { class: "name" }, h("h1", null, job.name), badge(job.status), modeTag(job), h("span", { class: "quiet id" }, job.id)),
    h("div", { class: "row" }, ENDED.has(job.status) ? null : orders(job, context)),
  );
}

function numbers(job) {
  const ended = ENDED.has(job.status);
  const state = job.vertices.reduce((sum, vertex) => sum + Math.max(0, vertex["state-size"] || 0), 0);
  return facts(
    fact(ended ? "Ran for" : "Running for", age((ended ? job.end : now()) - job.start), `since ${dateTime(job.start)}`),
    fact("Records read", rate(job["records-per-second"]), ended ? "at the end" : "now"),
    fact("Watermark lag", ended ? NONE : lag(job.watermark, now()), job.watermark === null ? "no event time yet" : watermark(job.watermark)),
    fact("Last checkpoint", job["last-checkpoint"] > 0 ? (ended ? moment(job["last-checkpoint"], clockTime(job["last-checkpoint"])) : `${age(now() - job["last-checkpoint"])} ago`) : NONE, `${bytes(state)} of state`),
    fact("Restarts", count(job.restarts), job.restarts > 0 ? link("why", jobAddress(job.id, "failure")) : "none so far", job.restarts > 0 ? "warn" : ""),
    job.guarantee ? fact("Guarantee", job.guarantee.guarantee, guaranteeNote(job.guarantee)) : null,
    job["waiting-for"] ? fact("Waits for", job["waiting-for"], null, "warn") : null,
  );
}

/** The guarantee of a job is that of its weakest source or sink. */
function guaranteeNote({ guarantee, operator }) {
  return guarantee === "exactly-once" ? "of all sources and sinks" : `limited by ${operator}`;
}

/** How tasks run. An adaptive job says when it has changed its mode last, and why. */
function modeTag(job) {
  const mode = job["execution-mode"];
  if (job["configured-execution-mode"] !== "adaptive") return mode === "pipelined" ? tag(mode) : null;
  const changes = job["execution-mode-changes"];
  const last = changes[changes.length - 1];
  if (last === undefined) return tag(`adaptive: ${mode}`);
  const text = `adaptive: ${mode} since checkpoint ${last.checkpoint}`;
  return h("a", { class: "tag", href: jobAddress(job.id, "timeline"), title: `${dateTime(last.timestamp)}: ${last.reason}` }, text);
}

function tabs(job, chosen) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Pages of this job" },
    TABS.map(([address, text]) =>
      h("a", { href: jobAddress(job.id, address), "aria-current": address === chosen ? "page" : null }, text),
    ),
  );
}

function orders(job, context) {
  return [
    button("Rescale", () => rescale(job, null, context)),
    button("Savepoint", () => takeSavepoint(job, context)),
    job.may["web-cancel"] ? button("Stop", () => stop(job, context)) : null,
    job.may["web-cancel"] ? button("Cancel", () => cancel(job, context), { class: "button danger-text" }) : null,
  ];
}

function isPipelined(job) {
  return job["execution-mode"] === "pipelined";
}

/** When a savepoint is written: an order takes the checkpoint of a pipelined job at once. */
function nextCheckpoint(job) {
  return isPipelined(job) ? "a checkpoint that is taken now" : "the end of the current epoch";
}

export function takeSavepoint(job, context) {
  confirm({
    title: "Take a savepoint",
    text: `The state of “${job.name}” is written as a savepoint at ${nextCheckpoint(job)}. The job goes on.`,
    fields: [folderField()],
    button: "Take it",
    act: async (values) => {
      const path = `/jobs/${part(job.id)}/savepoints`;
      const { "request-id": id } = await post(path, { "target-directory": values.get("folder") || null, "cancel-job": false });
      const { location } = await outcome(path, id);
      context.refresh();
      return { text: "The savepoint is at", copy: location };
    },
  });
}

export function stop(job, context) {
  confirm({
    title: "Stop the job with a savepoint",
    text: [
      `“${job.name}” completes ${isPipelined(job) ? "a last checkpoint" : "its epoch"}, writes a savepoint, and ends as finished. Its output is committed; nothing is lost.`,
      "To go on later, submit the program with this savepoint.",
    ],
    fields: [
      folderField(),
      checkbox("Drain: send the last watermark first, so that all windows and timers fire. Then the job should not go on from it.", "drain"),
    ],
    button: "Stop it",
    danger: true,
    act: async (values) => {
      const body = { targetDirectory: values.get("folder") || null, drain: values.has("drain") };
      const { "request-id": id } = await post(`/jobs/${part(job.id)}/stop`, body);
      const { location } = await outcome(`/jobs/${part(job.id)}/savepoints`, id);
      context.refresh();
      return { text: "The job has stopped. The savepoint is at", copy: location };
    },
  });
}

export function cancel(job, context) {
  confirm({
    title: "Cancel the job",
    text: [
      `“${job.name}” ends now, without a savepoint. ${isPipelined(job) ? "What it has processed since its last checkpoint is not committed." : "Records of the epoch under way are not written."}`,
      `${isPipelined(job) ? "What was committed with checkpoints stays as it is." : "Completed epochs stay as they are."} To be able to go on later, stop it with a savepoint instead.`,
    ],
    button: "Cancel the job",
    danger: true,
    act: async () => {
      await patch(`/jobs/${part(job.id)}?mode=cancel`);
      context.refresh();
      return "The job is being cancelled.";
    },
  });
}

/** What happens before tasks run with another parallelism. */
function whenRescaled(job) {
  return isPipelined(job)
    ? "A checkpoint is taken now. All tasks of the job end there and begin again from it, so nothing is processed for a moment. State is redistributed"
    : "At the end of the current epoch, state is redistributed";
}

/** Change the parallelism of one vertex, or of the whole job (vertex null). */
export function rescale(job, vertex, context) {
  const before = vertex === null ? job.parallelism : vertex.parallelism;
  const what = vertex === null ? "every vertex whose parallelism the program does not set" : `“${vertex.name}”`;
  const input = h("input", { name: "parallelism", type: "number", min: 1, max: 32768, value: before, required: true, "aria-label": "Number of subtasks" });
  const change = (by) => {
    input.value = Math.max(1, Number(input.value || 1) + by);
  };
  confirm({
    title: "Change the parallelism",
    text: `${whenRescaled(job)} and ${what} of “${job.name}” runs with this many subtasks (now ${before}). The job does not restart, and no record is lost.`,
    fields: [
      h(
        "div",
        { class: "row stepper" },
        button("−", () => change(-1), { "aria-label": "One less" }),
        input,
        button("+", () => change(1), { "aria-label": "One more" }),
        h("span", { class: "quiet" }, "subtasks"),
      ),
    ],
    button: "Rescale",
    act: async (values) => {
      const operator = vertex === null ? "" : `&operator=${part(vertex.operators[0].id)}`;
      const path = `/jobs/${part(job.id)}/rescaling`;
      const { "request-id": id } = await patch(`${path}?parallelism=${part(values.get("parallelism"))}${operator}`);
      await outcome(path, id);
      context.refresh();
      return `The job runs with ${values.get("parallelism")} subtasks.`;
    },
  });
}

function folderField() {
  return field("Folder", "folder", { placeholder: "as configured" }, "Empty: the folder of execution.checkpointing.savepoint-dir.");
}
