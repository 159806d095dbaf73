/**
 * One executor: memory, the subtasks that run there, its log.
 */

import { jobAddress } from "../addresses.js";
import { copy } from "../dialogs.js";
import { h } from "../elements.js";
import { age, bytes, count, dateTime, duration, percent } from "../format.js";
import { SERIES_STEP, rarely } from "../live.js";
import { loadLog, logView } from "../log_view.js";
import { arrows, badge, button, card, fact, facts, link, table } from "../parts.js";
import { shareBar } from "../pictures/share_bar.js";
import { get, now, part } from "../rest.js";

export default { title: (context) => `Executor ${context.params.executor}`, load, view };

async function load(context, signal) {
  const path = `/taskmanagers/${part(context.params.executor)}`;
  const ask = (wanted) => get(wanted, { signal });
  const [executor, placed, log] = await Promise.all([
    rarely(context.state, path, SERIES_STEP, ask), // Spark does not tell more often either
    rarely(context.state, `${path}/flott/subtasks`, SERIES_STEP, ask),
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

/** What takes memory: [what, how much, of when]. Only of the driver's own JVM does Spark report the present size. */
function memoryRows({ metrics, spark, memoryIsPeak }) {
  const ofWhen = memoryIsPeak ? "the most so far" : "now";
  return [
    ["Heap of the JVM", shareBar(metrics.heapUsed, metrics.heapMax, bytes, !memoryIsPeak), ofWhen],
    ["Outside of the heap", bytes(metrics.nonHeapUsed), ofWhen], // it has no limit of its own
    spark.pythonMemoryPeak === null ? null : ["Python workers, all together", bytes(spark.pythonMemoryPeak), "the most so far"],
    spark.storageUsed === null ? null : ["Blocks that Spark stores, in the heap", shareBar(spark.storageUsed, spark.storageMax, bytes), "now"],
  ].filter((row) => row !== null);
}

/** The addresses of Spark's own logs. They are of another origin, so they are texts to copy, not links. */
function sparkLogs(urls) {
  const named = Object.entries(urls);
  if (named.length === 0) return null;
  return h(
    "details",
    null,
    h("summary", null, "Logs that Spark serves itself"),
    named.map(([name, url]) => h("div", { class: "copyable", key: name }, h("code", { class: "code" }, url), button(`Copy ${name}`, (event) => copy(url, event.currentTarget)))),
  );
}

function view({ executor, subtasks, log }, context) {
  const { spark } = executor;
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("div", { class: "name" }, h("h1", null, `Executor ${executor.id}`), h("span", { class: "quiet id" }, executor.path)), link("All executors", "#/executors")),
    facts(
      fact("Running for", age(now() - executor.startTime), `since ${dateTime(executor.startTime)}`),
      fact("Slots in use", `${count(executor.slotsNumber - executor.freeSlots)} of ${count(executor.slotsNumber)}`, "by a task that runs now"),
      fact("Tasks completed", count(executor.completedTasks), null),
      fact("Tasks failed", count(executor.failedTasks), null, executor.failedTasks > 0 ? "bad" : ""),
      fact("Cores", count(executor.hardware.cpuCores), null),
      spark.shuffleRead === null ? null : fact("Shuffle", `${bytes(spark.shuffleRead)} read`, `${bytes(spark.shuffleWritten)} written`),
    ),
    card(
      "Memory",
      table({
        caption: "Memory",
        rows: memoryRows(executor),
        columns: [
          { title: "What", cell: ([name]) => name },
          { title: "In use", wide: true, cell: ([, used]) => used },
          { title: "When", cell: ([, , ofWhen]) => ofWhen },
        ],
      }),
      h("p", { class: "quiet" }, collections(executor.metrics.garbageCollectors)),
    ),
    h(
      "section",
      { class: "card bounded" },
      h("h2", null, `Subtasks placed here${subtasks.length > 0 ? ` (${count(subtasks.length)})` : ""}`),
      subtasks.length > 0 ? h("p", { class: "quiet" }, "The last task of each ran here. A running subtask of a job in epochs holds a slot only while its task of the epoch runs, so they take turns. In a pipelined job, one slot holds a subtask of every vertex.") : null,
      table({
        caption: "Subtasks",
        rows: subtasks,
        empty: "No subtask runs here at the moment.",
        columns: [
          { title: "Job", wide: true, cell: (one) => link(one["job-name"], jobAddress(one.job)) },
          { title: "Vertex", wide: true, cell: (one) => link(arrows(one["vertex-name"]), jobAddress(one.job, "", { vertex: one.vertex })) },
          { title: "Subtask", number: true, cell: (one) => `${one.subtask + 1} of ${one.parallelism}` },
          { title: "Status", cell: (one) => badge(one.status) },
          { title: "Busy", number: true, cell: (one) => percent(one.busy) },
          { title: "State", number: true, cell: (one) => bytes(one["state-size"]) },
          { title: "Worker process", number: true, cell: (one) => (one.worker > 0 ? String(one.worker) : "") },
        ],
      }),
    ),
    card("Log", sparkLogs(spark.logUrls), logView(log, context, { download: { path: `/taskmanagers/${part(executor.id)}/log`, name: `${executor.id}.log` } })),
  );
}
