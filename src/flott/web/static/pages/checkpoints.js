/**
 * Checkpoints and savepoints: the history with sizes and durations, each by vertex, and the orders on savepoints.
 */

import { jobAddress } from "../addresses.js";
import { checkbox, confirm, copy, field } from "../dialogs.js";
import { h } from "../elements.js";
import { NONE, bytes, count, dateTime, duration } from "../format.js";
import { ENDED, badge, button, card, cardWith, fact, facts, moment, table, tag } from "../parts.js";
import { lineChart } from "../pictures/line_chart.js";
import { get, getOrNull, outcome, part, post } from "../rest.js";
import { jobPage, stop, takeSavepoint } from "./job_frame.js";

export default jobPage({ tab: "checkpoints", load, view });

async function load(context, signal, path) {
  const { checkpoint: chosen, vertex } = context.query;
  const [checkpoints, settings, detail, subtasks] = await Promise.all([
    get(`${path}/checkpoints`, { signal }),
    context.state.settings || get(`${path}/checkpoints/config`, { signal }),
    chosen ? getOrNull(`${path}/checkpoints/details/${part(chosen)}`, { signal }) : null,
    chosen && vertex ? getOrNull(`${path}/checkpoints/details/${part(chosen)}/subtasks/${part(vertex)}`, { signal }) : null,
  ]);
  context.state.settings = settings;
  return { checkpoints, settings, detail, subtasks };
}

function view({ checkpoints, settings, detail, subtasks }, context, job) {
  const { counts, latest, history } = checkpoints;
  const savepoints = savepointsOf(history, latest);
  return h(
    "div",
    { class: "stack" },
    facts(
      fact("Completed", count(counts.completed), counts.in_progress > 0 ? `${counts.in_progress} under way` : null),
      fact("Failed", count(counts.failed), latest.failed ? dateTime(latest.failed.trigger_timestamp) : "none", counts.failed > 0 ? "bad" : ""),
      fact("Latest", latest.completed ? duration(latest.completed.end_to_end_duration) : NONE, latest.completed ? `number ${latest.completed.id}` : null),
      fact("State", latest.completed ? bytes(latest.completed.state_size) : NONE, latest.completed ? `${bytes(latest.completed.checkpointed_size)} of it written` : null),
      fact("Restored from", latest.restored ? `number ${latest.restored.id}` : "nothing", latest.restored ? moment(latest.restored.restore_timestamp) : "the job began empty"),
    ),
    card("Duration and size", charts(history), summaryTable(checkpoints.summary)),
    detail === null ? null : detailCard(detail, subtasks, context, job),
    cardWith("Savepoints", savepointOrders(job, context), savepointTable(savepoints, job, context)),
    card("History", historyTable(history, context)),
    card("Settings", settingsList(settings)),
  );
}

/** The savepoints of the history, and the last one also when the history has moved on. */
function savepointsOf(history, latest) {
  const found = history.filter((one) => one.is_savepoint && one.status === "COMPLETED");
  const last = latest.savepoint;
  return last && !found.some((one) => one.external_path === last.external_path) ? [...found, last] : found;
}

function charts(history) {
  const done = history.filter((one) => one.status === "COMPLETED").sort((one, other) => one.trigger_timestamp - other.trigger_timestamp);
  const at = done.map((one) => one.trigger_timestamp);
  return h(
    "div",
    { class: "charts" },
    lineChart({ at, label: "Duration", format: duration, series: [{ name: "from trigger to acknowledgement", values: done.map((one) => one.end_to_end_duration) }] }),
    lineChart({
      at, label: "Size", format: bytes,
      series: [
        { name: "state", values: done.map((one) => one.state_size) },
        { name: "written", values: done.map((one) => one.checkpointed_size) },
      ],
    }),
  );
}

function historyTable(history, context) {
  return table({
    caption: "Checkpoints",
    rows: history,
    key: (one) => `${one.id}${one.is_savepoint ? one.external_path : ""}`, // a savepoint has the number of a checkpoint
    rowClass: (one) => (String(one.id) === context.query.checkpoint ? "chosen" : null),
    empty: "No checkpoint yet.",
    columns: [
      { title: "Number", cell: (one) => h("button", { class: "as-link", type: "button", on: { click: () => context.go({ checkpoint: one.id }) } }, String(one.id)) },
      { title: "Status", cell: (one) => badge(one.status) },
      { title: "Kind", cell: (one) => (one.is_savepoint ? tag("savepoint") : "checkpoint") },
      { title: "Triggered", cell: (one) => moment(one.trigger_timestamp) },
      { title: "Took", number: true, cell: (one) => duration(one.end_to_end_duration) },
      { title: "State", number: true, cell: (one) => bytes(one.state_size) },
      { title: "Written", number: true, cell: (one) => bytes(one.checkpointed_size) },
      { title: "Records", number: true, cell: (one) => count(one.records) },
      { title: "Acknowledged", number: true, cell: (one) => `${one.num_acknowledged_subtasks} of ${one.num_subtasks}` },
      { title: "Failure", wide: true, cell: (one) => one.failure_message || "" },
    ],
  });
}

function detailCard(detail, subtasks, context, job) {
  const names = new Map(job.vertices.map((vertex) => [vertex.id, vertex.name]));
  const phases = Object.entries(detail.phases || {}).map(([name, ms]) => `${name} ${duration(ms)}`).join(", ");
  return cardWith(
    `${detail.is_savepoint ? "Savepoint" : "Checkpoint"} ${detail.id}`,
    button("Close", () => context.go({ checkpoint: null, vertex: null })),
    h("p", { class: "quiet" }, [dateTime(detail.trigger_timestamp), phases].filter(Boolean).join(" — ")),
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
        { title: "Took", number: true, cell: ([, task]) => duration(task.end_to_end_duration) },
        { title: "State", number: true, cell: ([, task]) => bytes(task.state_size) },
        { title: "Written", number: true, cell: ([, task]) => bytes(task.checkpointed_size) },
      ],
    }),
    subtasks === null ? null : h("h3", null, `Subtasks of ${names.get(context.query.vertex) || "the vertex"}`),
    subtasks === null ? null : subtaskTable(subtasks.subtasks),
  );
}

function subtaskTable(subtasks) {
  return table({
    caption: "By subtask",
    rows: subtasks,
    key: (one) => one.index,
    columns: [
      { title: "Subtask", number: true, cell: (one) => count(one.index + 1) },
      { title: "Status", cell: (one) => badge(one.status) },
      { title: "Acknowledged", cell: (one) => moment(one.ack_timestamp) },
      { title: "Took", number: true, cell: (one) => duration(one.end_to_end_duration) },
      { title: "Alignment", number: true, cell: (one) => (one.alignment ? duration(one.alignment.duration) : NONE) },
      { title: "State", number: true, cell: (one) => bytes(one.state_size) },
      { title: "Written", number: true, cell: (one) => bytes(one.checkpointed_size) },
    ],
  });
}

/** How the completed checkpoints are spread. */
function summaryTable(summary) {
  const rows = [
    ["Duration", summary.end_to_end_duration, duration],
    ["State", summary.state_size, bytes],
    ["Written", summary.checkpointed_size, bytes],
    ["Records", summary.records, count],
  ];
  const columns = [["min", "min"], ["avg", "mean"], ["p50", "median"], ["p90", "p90"], ["p99", "p99"], ["max", "max"]];
  return table({
    caption: "Summary of completed checkpoints",
    rows,
    key: ([name]) => name,
    columns: [{ title: "Measure", cell: ([name]) => name }, ...columns.map(([key, title]) => ({ title, number: true, cell: ([, spread, format]) => format(spread[key]) }))],
  });
}

function pathLine(path) {
  return h("div", { class: "copyable" }, h("code", { class: "code" }, path), button("Copy", (event) => copy(path, event.currentTarget)));
}

function savepointOrders(job, context) {
  if (ENDED.has(job.status)) return button("Restore from a path", () => restore(job, "", context));
  return h(
    "div",
    { class: "row" },
    button("Take a savepoint", () => takeSavepoint(job, context)),
    button("Stop with one", () => stop(job, context)),
  );
}

function savepointTable(savepoints, job, context) {
  return table({
    caption: "Savepoints",
    rows: savepoints,
    key: (one) => one.external_path || one.id,
    empty: "None of the last checkpoints is a savepoint. A savepoint stays until it is disposed of.",
    columns: [
      { title: "Taken", cell: (one) => moment(one.trigger_timestamp) },
      { title: "Path", wide: true, cell: (one) => h("code", null, one.external_path) },
      { title: "Size", number: true, cell: (one) => bytes(one.state_size) },
      {
        title: "Orders",
        cell: (one) =>
          h(
            "div",
            { class: "row" },
            button("Restore", () => restore(job, one.external_path, context), { class: "button small" }),
            button("Export", () => exportTo(one.external_path, context), { class: "button small" }),
            button("Dispose", () => dispose(one.external_path, context), { class: "button small danger-text" }),
          ),
      },
    ],
  });
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
      return `The copy is at ${place}`;
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
