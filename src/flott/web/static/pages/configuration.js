/**
 * Configuration of the JobManager, its platform, and its threads. Secrets never leave the JobManager.
 */

import { h } from "../elements.js";
import { card } from "../parts.js";
import { get } from "../rest.js";
import { settingsTable } from "../settings.js";

export default { title: () => "Configuration", load, view, pause: 30000 };

async function load(context, signal) {
  const [settings, environment, threads, cluster] = await Promise.all([
    get("/jobmanager/config", { signal }),
    get("/jobmanager/environment", { signal }),
    get("/jobmanager/thread-dump", { signal }),
    get("/config", { signal }),
  ]);
  return { settings, environment, threads: threads.threadInfos, cluster };
}

function view({ settings, environment, threads, cluster }, context) {
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
    card(
      `Threads (${threads.length})`,
      threads.map((thread) =>
        h("details", { key: thread.threadName }, h("summary", null, thread.threadName), h("pre", { class: "code" }, thread.stringifiedThreadInfo)),
      ),
    ),
  );
}
