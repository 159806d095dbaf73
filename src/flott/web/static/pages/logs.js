/**
 * Logs of the JobManager: its own, and Spark's.
 */

import { h } from "../elements.js";
import { bytes } from "../format.js";
import { rarely } from "../live.js";
import { loadLog, logView } from "../log_view.js";
import { card, cardWith, select } from "../parts.js";
import { get, part } from "../rest.js";

export default { title: () => "Logs", load, view };

async function load(context, signal) {
  const chosen = context.query.file || null;
  const [files, log] = await Promise.all([
    rarely(context.state, "/jobmanager/logs", 10000, (list) => get(list, { signal })),
    loadLog(context, signal, chosen ? `/jobmanager/logs/${part(chosen)}` : "/jobmanager/log", { canFilter: !chosen }),
  ]);
  return { files: files.logs, log };
}

function view({ files, log }, context) {
  const chosen = context.query.file || "";
  const choose = (file) => context.go({ file, search: null, level: null });
  const own = "jobmanager.log";
  const others = files.filter((file) => file.name !== own);
  const found = files.find((file) => file.name === (chosen || own));
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "Logs of the JobManager")),
    cardWith(
      chosen || own,
      select("File", [["", own], ...others.map((file) => [file.name, `${file.name} (${bytes(file.size)})`])], chosen, choose),
      logView(log, context, {
        canFilter: !chosen,
        download: found ? { path: `/jobmanager/logs/${part(found.name)}`, name: found.name, size: found.size } : null,
      }),
    ),
    card("Logs of jobs", h("p", null, "Each job has a log of its own: open the job, then Log. An executor's log has the lines of all jobs that run there.")),
  );
}
