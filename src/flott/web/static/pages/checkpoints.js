/**
 * Checkpoints and savepoints: the history with sizes and durations, each by vertex, and the orders on savepoints.
 */

import { jobAddress } from "../addresses.js";
import { checkbox, confirm, copy, field } from "../dialogs.js";
import { h } from "../elements.js";
import { NONE, bytes, clockTime, count, dateTime, duration } from "../format.js";
import { SERIES_STEP, rarely } from "../live.js";
import { ENDED, arrows, badge, button, card, cardWith, moment, pictured, table, tag } from "../parts.js";
import { CHECKPOINT_PHASES, PHASES } from "../pictures/epoch_bars.js";
import { lineChart } from "../pictures/line_chart.js";
import { get, getOrNull, outcome, part, post } from "../rest.js";
import { jobPage, stop, takeSavepoint } from "./job_frame.js";

const TYPES = { CHECKPOINT: "An aligned checkpoint", UNALIGNED_CHECKPOINT: "An unaligned checkpoint", SAVEPOINT: "a savepoint while the job goes on", SYNC_SAVEPOINT: "a savepoint that stops the job" };

export default jobPage({ tab: "checkpoints", load, view });

async function load(context, signal, path) {
  const { checkpoint: chosen, vertex } = context.query;
  const [checkpoints, settings, { savepoints }, { epochs }, detail, subtasks] = await Promise.all([
    get(`${path}/checkpoints`, { signal }),
    context.state.settings || get(`${path}/checkpoints/config`, { signal }),
    get(`${path}/flott/savepoints`, { signal }),
    rarely(context.state, `${path}/flott/timeline`, SERIES_STEP, (timeline) => get(timeline, { signal })),
    chosen ? getOrNull(`${path}/checkpoints/details/${part(chosen)}`, { signal }) : null,
    chosen && vertex ? getOrNull(`${path}/checkpoints/details/${part(chosen)}/subtasks/${part(vertex)}`, { signal }) : null,
  ]);
  context.state.settings = settings;
  return { checkpoints, settings, savepoints: savepoints.filter((one) => !one.discarded), epochs, detail, subtasks };
}

function view({ checkpoints, settings, savepoints, epochs, detail, subtasks }, context, job) {
  const { counts, latest, history } = checkpoints;
  const done = epochs.filter((epoch) => epoch.status === "COMPLETED");
  return h(
    "div",
    { class: "stack" },
    chosenCard(detail, subtasks, [...savepoints, ...history], context, job),
    card(
      "Duration and size",
      h("p", null, told(counts, latest)),
      done.length < 2 ? null : pictured(charts(done), `The last ${done.length} checkpoints`, () => pointTable(done)),
      counts.completed > 0 ? h("h3", null, "How the completed checkpoints are spread") : null,
      counts.completed > 0 ? summaryTable(checkpoints.summary) : null,
    ),
    h("section", { class: "card bounded" }, h("div", { class: "head" }, h("h2", null, "Savepoints"), savepointOrders(job, context)), savepointTable(savepoints, job, context)),
    card("The last checkpoints", historyTable(history, context)),
    card("Settings", settingsList(settings)),
  );
}

/** What there is to say of all checkpoints, in sentences. */
function told({ completed, failed, in_progress: underWay }, { completed: last, failed: lastFailed, restored }) {
  const sentences = [`${count(completed)} completed${underWay > 0 ? `, ${count(underWay)} under way` : ""}.`];
  if (last) sentences.push(`The latest, number ${last.id}, took ${duration(last.end_to_end_duration)}, and has ${bytes(last.state_size)} of state, of which it wrote ${bytes(last.checkpointed_size)}.`);
  if (failed > 0) sentences.push(`${count(failed)} failed${lastFailed ? `, the last at ${dateTime(lastFailed.trigger_timestamp)}` : ""}.`);
  if (restored) sentences.push(`The job was restored from ${restored.is_savepoint ? "a savepoint" : `checkpoint ${restored.id}`} at ${dateTime(restored.restore_timestamp)}.`);
  return sentences.join(" ");
}

function charts(done) {
  const at = done.map((one) => one.end);
  return h(
    "div",
    { class: "charts" },
    lineChart({ at, label: "Duration", format: duration, series: [{ name: "from its beginning to the commit", values: done.map((one) => one.end - one.start) }] }),
    lineChart({
      at, label: "Size", format: bytes,
      series: [
        { name: "state", values: done.map((one) => one["state-size"]) },
        { name: "written", values: done.map((one) => one.written) },
      ],
    }),
  );
}

/** The points of the charts. */
function pointTable(done) {
  return table({
    caption: "Duration and size of the last checkpoints",
    rows: [...done].reverse(),
    key: (one) => `${one.epoch}.${one.attempt}`,
    columns: [
      { title: "Number", number: true, cell: (one) => count(one.epoch) },
      { title: "Ended", cell: (one) => moment(one.end) },
      { title: "Took", number: true, cell: (one) => duration(one.end - one.start) },
      { title: "State", number: true, cell: (one) => bytes(one["state-size"]) },
      { title: "Written", number: true, cell: (one) => bytes(one.written) },
    ],
  });
}

/** A savepoint has the number of a checkpoint, so its page is found by the time at which it was triggered. */
function nameOf(one) {
  return one.is_savepoint ? `savepoint of ${one.id}` : String(one.id);
}

function open(one, context) {
  const query = one.is_savepoint ? { savepoint: one.trigger_timestamp, checkpoint: null, vertex: null } : { checkpoint: one.id, savepoint: null, vertex: null };
  return h("button", { class: "as-link", type: "button", on: { click: () => context.go(query) } }, nameOf(one));
}

function isChosen(one, { checkpoint, savepoint }) {
  return one.is_savepoint ? String(one.trigger_timestamp) === savepoint : String(one.id) === checkpoint;
}

function historyTable(history, context) {
  const failed = history.some((one) => one.failure_message);
  return table({
    caption: "Checkpoints",
    rows: history,
    key: (one) => `${one.id}${one.is_savepoint ? one.external_path : ""}`, // a savepoint has the number of a checkpoint
    rowClass: (one) => (isChosen(one, context.query) ? "chosen" : null),
    empty: "No checkpoint yet.",
    columns: [
      { title: "Number", cell: (one) => open(one, context) },
      { title: "Status", cell: (one) => badge(one.status) },
      { title: "Kind", cell: (one) => (one.is_savepoint ? tag("savepoint") : "checkpoint") },
      { title: "Triggered", cell: (one) => moment(one.trigger_timestamp) },
      { title: "Took", number: true, cell: (one) => duration(one.end_to_end_duration) },
      { title: "State", number: true, cell: (one) => bytes(one.state_size) },
      { title: "Written", number: true, cell: (one) => bytes(one.checkpointed_size) },
      { title: "Records", number: true, cell: (one) => count(one.records) },
      { title: "Acknowledged", number: true, cell: (one) => `${one.num_acknowledged_subtasks} of ${one.num_subtasks}` },
      ...(failed ? [{ title: "Failure", wide: true, cell: (one) => one.failure_message || "" }] : []),
    ],
  });
}

/** The checkpoint or the savepoint that was chosen. */
function chosenCard(detail, subtasks, known, context, job) {
  const { savepoint } = context.query;
  if (!savepoint) return detail === null ? gone(context) : detailCard(detail, subtasks, context, job);
  const found = known.find((one) => one.is_savepoint && String(one.trigger_timestamp) === savepoint);
  return found === undefined ? gone(context) : savepointCard(found, job, context);
}

function closing(context) {
  return button("Close", () => context.go({ checkpoint: null, savepoint: null, vertex: null }));
}

function savepointCard(one, job, context) {
  const facts = [
    ["Status", badge(one.status)],
    ["Taken of", `checkpoint ${one.id}`],
    ["Kind", `${TYPES[one.checkpoint_type]}, ${one.savepointFormat === "NATIVE" ? "in the native format" : "in the canonical format"}`],
    ["Triggered", moment(one.trigger_timestamp)],
    ["Took", duration(one.end_to_end_duration)],
    ["State", bytes(one.state_size)],
  ];
  return cardWith(
    "Savepoint",
    closing(context),
    one.external_path ? pathLine(one.external_path) : null,
    one.failure_message ? h("p", { class: "problem" }, one.failure_message) : null,
    h("dl", { class: "pairs" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    one.external_path && !one.discarded ? savepointActions(one, job, context) : null,
  );
}

/** A checkpoint that was chosen leaves the history after ten more. */
function gone(context) {
  const { checkpoint, savepoint } = context.query;
  if (savepoint) return cardWith("Savepoint", closing(context), h("p", { class: "quiet" }, "It was disposed of, or is no longer among the last hundred."));
  if (!checkpoint) return null;
  return cardWith(
    `Checkpoint ${checkpoint}`,
    closing(context),
    h("p", { class: "quiet" }, "It is no longer in the history, which has the last ten. The timeline has the phases of the last 300."),
  );
}

function detailCard(detail, subtasks, context, job) {
  const names = new Map(job.vertices.map((vertex) => [vertex.id, arrows(vertex.name)]));
  const named = detail.mode === "pipelined" ? CHECKPOINT_PHASES : PHASES;
  const phases = named.filter(([name]) => name in (detail.phases || {})).map(([name, text]) => `${text} ${duration(detail.phases[name])}`).join(", ");
  return cardWith(
    `Checkpoint ${detail.id}`,
    closing(context),
    h("p", { class: "quiet" }, `${TYPES[detail.checkpoint_type]} of ${dateTime(detail.trigger_timestamp)}${phases ? `: ${phases}` : ""}`),
    detail.external_path ? pathLine(detail.external_path) : null,
    detail.failure_message ? h("p", { class: "problem" }, detail.failure_message) : null,
    table({
      caption: "By vertex",
      rows: Object.entries(detail.tasks || {}),
      key: ([id]) => id,
      empty: "No vertex has acknowledged it.",
      columns: [
        {
          title: "Vertex", wide: true,
          cell: ([id]) => h("button", { class: "as-link", type: "button", on: { click: () => context.go({ vertex: id }) } }, names.get(id) || id),
        },
        { title: "Acknowledged", number: true, cell: ([, task]) => `${task.num_acknowledged_subtasks} of ${task.num_subtasks}` },
        { title: "Last acknowledged", cell: ([, task]) => moment(task.latest_ack_timestamp, clockTime(task.latest_ack_timestamp)) },
        { title: "Took", number: true, cell: ([, task]) => duration(task.end_to_end_duration) },
        { title: "State", number: true, cell: ([, task]) => bytes(task.state_size) },
        { title: "Written", number: true, cell: ([, task]) => bytes(task.checkpointed_size) },
      ],
    }),
    subtasks === null ? null : h("h3", null, `Subtasks of ${names.get(context.query.vertex) || "the vertex"}`),
    subtasks === null ? null : subtaskTable(subtasks.subtasks, detail.mode === "pipelined"),
  );
}

/** In an epoch there are no barriers, so only what it took is shown. */
function subtaskTable(subtasks, pipelined) {
  const parts = [
    { title: "Start delay", number: true, hint: "from the trigger to the first barrier", cell: (one) => duration(one.start_delay) },
    { title: "Alignment", number: true, hint: "from the first barrier to the last", cell: (one) => (one.alignment ? duration(one.alignment.duration) : NONE) },
    { title: "Snapshot", number: true, hint: "nothing is processed meanwhile", cell: (one) => (one.checkpoint ? duration(one.checkpoint.sync) : NONE) },
    { title: "Files", number: true, hint: "written beside processing", cell: (one) => (one.checkpoint ? duration(one.checkpoint.async) : NONE) },
    { title: "In flight", number: true, hint: "records between tasks that are a part of it, of an unaligned checkpoint", cell: (one) => (one.alignment ? bytes(one.alignment.persisted) : NONE) },
  ];
  return table({
    caption: "By subtask",
    rows: subtasks,
    key: (one) => one.index,
    columns: [
      { title: "Subtask", number: true, cell: (one) => count(one.index + 1) },
      { title: "Status", cell: (one) => badge(one.status) },
      { title: "Acknowledged", cell: (one) => moment(one.ack_timestamp) },
      { title: "Took", number: true, cell: (one) => duration(one.end_to_end_duration) },
      ...(pipelined ? parts : []),
      { title: "State", number: true, cell: (one) => bytes(one.state_size) },
      { title: "Written", number: true, cell: (one) => bytes(one.checkpointed_size) },
    ],
  });
}

/** How the completed checkpoints are spread. */
function summaryTable(summary) {
  const rows = [
    ["Duration", summary.end_to_end_duration, duration],
    ["Size of the state", summary.state_size, bytes],
    ["Written to storage", summary.checkpointed_size, bytes],
    ["Records read", summary.records, count],
  ];
  const columns = [["min", "min"], ["avg", "mean"], ["p50", "median"], ["p90", "p90"], ["p99", "p99"], ["max", "max"]];
  return table({
    caption: "Summary of completed checkpoints",
    rows,
    key: ([name]) => name,
    columns: [{ title: "What", cell: ([name]) => name }, ...columns.map(([key, title]) => ({ title, number: true, cell: ([, spread, format]) => format(spread[key]) }))],
  });
}

function pathLine(path) {
  return h("div", { class: "copyable" }, h("code", { class: "code" }, path), button("Copy", (event) => copy(path, event.currentTarget)));
}

function savepointOrders(job, context) {
  const anyPath = button("Restore from a path", () => restore(job, "", context));
  if (ENDED.has(job.status)) return anyPath;
  return h(
    "div",
    { class: "row" },
    button("Take a savepoint", () => takeSavepoint(job, context)),
    button("Stop with one", () => stop(job, context)),
    anyPath,
  );
}

function savepointTable(savepoints, job, context) {
  return table({
    caption: "Savepoints",
    rows: savepoints,
    key: (one) => one.external_path,
    rowClass: (one) => (isChosen(one, context.query) ? "chosen" : null),
    empty: "The job has completed no savepoint that is still there. A savepoint stays until it is disposed of.",
    columns: [
      { title: "Savepoint", cell: (one) => open(one, context) },
      { title: "Taken", cell: (one) => moment(one.trigger_timestamp) },
      { title: "Path", wide: true, cell: (one) => h("code", null, one.external_path) },
      { title: "Size", number: true, cell: (one) => bytes(one.state_size) },
      { title: "Actions", cell: (one) => savepointActions(one, job, context) },
    ],
  });
}

function savepointActions(one, job, context) {
  return h(
    "div",
    { class: "row" },
    button("Restore", () => restore(job, one.external_path, context), { class: "button small" }),
    button("Export", () => exportTo(one.external_path), { class: "button small" }),
    button("Dispose", () => dispose(one.external_path, context), { class: "button small danger-text" }),
  );
}

function restore(job, path, context) {
  confirm({
    title: "Restore as a new job",
    text: `The program of “${job.name}” is started once more, as a new job, with the state of this savepoint. This job is not changed.${ENDED.has(job.status) ? "" : " It runs on: two jobs then read the same sources and write to the same sinks."}`,
    fields: [
      field("Savepoint", "path", { value: path, required: true }),
      checkbox("Allow state that no operator of the program takes", "unclaimed"),
    ],
    button: "Start the job",
    act: async (values) => {
      const body = { "savepoint-path": values.get("path"), "allow-non-restored-state": values.has("unclaimed") };
      const { jobid } = await post(`/jobs/${part(job.id)}/flott/restore`, body);
      location.hash = jobAddress(jobid);
      return "The job was started.";
    },
  });
}

function exportTo(path) {
  confirm({
    title: "Export the savepoint",
    text: ["All files of the savepoint are copied to a folder, so that it can be moved to another place.", h("code", { class: "code" }, path)],
    fields: [field("Folder", "folder", { required: true })],
    button: "Export",
    act: async (values) => {
      const { "request-id": id } = await post("/flott/savepoint-export", { "savepoint-path": path, "target-directory": values.get("folder") });
      const { location: place } = await outcome("/flott/savepoint-export", id);
      return { text: "The copy is at", copy: place };
    },
  });
}

function dispose(path, context) {
  confirm({
    title: "Dispose of the savepoint",
    text: ["The files of this savepoint are deleted. No job can be restored from it afterwards. This cannot be undone.", h("code", { class: "code" }, path)],
    button: "Delete it",
    danger: true,
    act: async () => {
      const { "request-id": id } = await post("/savepoint-disposal", { "savepoint-path": path });
      await outcome("/savepoint-disposal", id);
      context.refresh();
      return "The savepoint was deleted.";
    },
  });
}

function settingsList(settings) {
  const rows = [
    ["Mode", settings.mode.replace("_", " ")],
    ["Interval", duration(settings.interval)],
    ["Timeout", duration(settings.timeout)],
    ["Minimum pause", duration(settings.min_pause)],
    ["State backend", settings.state_backend],
    ["Storage", settings.checkpoint_storage],
    ["Tolerated failures", count(settings.tolerable_failed_checkpoints)],
    ["Kept after a cancellation", settings.externalization.enabled && !settings.externalization.delete_on_cancellation ? "yes" : "no"],
  ];
  return h("dl", { class: "pairs" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}
