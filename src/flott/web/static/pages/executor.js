/**
 * One executor: memory, the subtasks that run there, its log.
 */

import { jobAddress } from "../addresses.js";
import { h } from "../elements.js";
import { bytes, count, duration } from "../format.js";
import { loadLog, logView } from "../log_view.js";
import { arrows, badge, card, fact, facts, link, table } from "../parts.js";
import { shareBar } from "../pictures/share_bar.js";
import { get, part } from "../rest.js";

export default { title: (context) => `Executor ${context.params.executor}`, load, view };

async function load(context, signal) {
  const path = `/taskmanagers/${part(context.params.executor)}`;
  const [executor, placed, log] = await Promise.all([
    get(path, { signal }),
    get(`${path}/flott/subtasks`, { signal }),
    loadLog(context, signal, `${path}/log`),
  ]);
  return { executor, subtasks: placed.subtasks, log };
}

/** How long the collectors of the JVM took. Spark tells one sum of all, which it calls All. */
function collections(collectors) {
  if (collectors.length === 0) return "The garbage collection of the JVM has taken no time so far.";
  const times = collectors.map((one) => (one.name === "All" ? duration(one.time) : `${duration(one.time)} (${one.name})`));
  return `The garbage collection of the JVM has taken ${times.join(", ")} so far.`;
}

function view({ executor, subtasks, log }, context) {
  const memory = executor.metrics;
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("div", { class: "name" }, h("h1", null, `Executor ${executor.id}`), h("span", { class: "quiet id" }, executor.path)), link("All executors", "#/executors")),
    facts(
      fact("Slots in use", `${count(executor.slotsNumber - executor.freeSlots)} of ${count(executor.slotsNumber)}`, null),
      fact("Tasks now", count(executor.assignedTasks), null),
      fact("Tasks completed", count(executor.completedTasks), null),
      fact("Tasks failed", count(executor.failedTasks), null, executor.failedTasks > 0 ? "bad" : ""),
      fact("Cores", count(executor.hardware.cpuCores), null),
    ),
    card(
      "Memory",
      table({
        caption: "Memory",
        rows: [
          ["Heap of the JVM", shareBar(memory.heapUsed, memory.heapMax, bytes)],
          ["Outside of the heap", bytes(memory.nonHeapUsed)], // it has no limit of its own
        ],
        columns: [
          { title: "What", cell: ([name]) => name },
          { title: "In use", wide: true, cell: ([, used]) => used },
        ],
      }),
      h("p", { class: "quiet" }, collections(memory.garbageCollectors)),
    ),
    h(
      "section",
      { class: "card bounded" },
      h("h2", null, `Subtasks placed here${subtasks.length > 0 ? ` (${count(subtasks.length)})` : ""}`),
      table({
        caption: "Subtasks",
        rows: subtasks,
        empty: "No subtask runs here at the moment.",
        columns: [
          { title: "Job", wide: true, cell: (one) => link(one["job-name"], jobAddress(one.job)) },
          { title: "Vertex", wide: true, cell: (one) => link(arrows(one["vertex-name"]), jobAddress(one.job, "", { vertex: one.vertex })) },
          { title: "Subtask", number: true, cell: (one) => `${one.subtask + 1} of ${one.parallelism}` },
          { title: "Status", cell: (one) => badge(one.status) },
          { title: "Worker process", number: true, cell: (one) => (one.worker > 0 ? String(one.worker) : "") },
        ],
      }),
    ),
    card("Log", logView(log, context, { download: { path: `/taskmanagers/${part(executor.id)}/log`, name: `${executor.id}.log` } })),
  );
}
