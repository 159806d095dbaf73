/**
 * Configuration of the JobManager, its platform, memory and threads. Secrets never leave the JobManager.
 */

import { h } from "../elements.js";
import { NONE, bytes, duration } from "../format.js";
import { card } from "../parts.js";
import { shareBar } from "../pictures/share_bar.js";
import { get } from "../rest.js";
import { settingsTable } from "../settings.js";

const JVM = "Status.JVM";
const METRICS = ["Memory.Heap.Used", "Memory.Heap.Max", "Memory.NonHeap.Used", "GarbageCollector.All.Time"].map((name) => `${JVM}.${name}`);

export default { title: () => "Configuration", load, view, pause: 30000 };

async function load(context, signal) {
  const [settings, environment, threads, cluster, metrics] = await Promise.all([
    get("/jobmanager/config", { signal }),
    get("/jobmanager/environment", { signal }),
    get("/jobmanager/thread-dump", { signal }),
    get("/config", { signal }),
    get(`/jobmanager/metrics?get=${METRICS.join(",")}`, { signal }),
  ]);
  return { settings, environment, threads: threads.threadInfos, cluster, metrics };
}

/** The JVM beside the JobManager, which Spark's driver runs in. Without one, there is no metric of it. */
function memory(metrics) {
  const known = new Map(metrics.map((one) => [one.id.slice(JVM.length + 1), Number(one.value)]));
  const rows = [
    ["Heap", known.has("Memory.Heap.Max") ? shareBar(known.get("Memory.Heap.Used"), known.get("Memory.Heap.Max"), bytes) : NONE],
    ["Outside of the heap", bytes(known.get("Memory.NonHeap.Used"))],
    ["Garbage collection took", duration(known.get("GarbageCollector.All.Time"))],
  ];
  return h("dl", { class: "pairs" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

function view({ settings, environment, threads, cluster, metrics }, context) {
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "Configuration of the JobManager")),
    card("Settings", settingsTable(settings, context, "Only what differs from the defaults is listed.")),
    card(
      "Platform",
      h(
        "dl",
        { class: "pairs" },
        [["Flott", cluster["flott-version"]], ["Flink's REST API", cluster["flink-version"]], ["Runs on", environment.jvm.version], ["Machine", environment.jvm.arch]].map(
          ([name, value]) => [h("dt", null, name), h("dd", null, value)],
        ),
      ),
    ),
    card("Memory of the JVM", memory(metrics)),
    card(
      `Threads (${threads.length})`,
      threads.map((thread) =>
        h("details", { key: thread.threadName }, h("summary", null, thread.threadName), h("pre", { class: "code" }, thread.stringifiedThreadInfo)),
      ),
    ),
  );
}
