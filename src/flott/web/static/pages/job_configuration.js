/**
 * Configuration of a job: its settings, and the parameters that its functions can read.
 */

import { h } from "../elements.js";
import { count } from "../format.js";
import { card, table } from "../parts.js";
import { get } from "../rest.js";
import { settingsTable } from "../settings.js";
import { jobPage } from "./job_frame.js";

export default jobPage({ tab: "configuration", load, view, pause: 30000 });

async function load(context, signal, path) {
  const [settings, shown] = await Promise.all([get(`${path}/jobmanager/config`, { signal }), get(`${path}/config`, { signal })]);
  return { settings, execution: shown["execution-config"] };
}

function view({ settings, execution }, context, job) {
  const parameters = Object.entries(execution["user-config"]);
  const rows = [
    ["Restart strategy", execution["restart-strategy"]],
    ["Parallelism", count(execution["job-parallelism"])],
    ["Checkpoints in", h("code", null, job["checkpoint-directory"])],
  ];
  return h(
    "div",
    { class: "stack" },
    card("Execution", h("dl", { class: "pairs" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    card("Settings", settingsTable(settings, context, "Those of the cluster and of the job together.")),
    card(
      "Parameters of the program",
      table({
        caption: "Parameters",
        rows: parameters,
        empty: "The program has set no global job parameters.",
        columns: [
          { title: "Name", cell: ([name]) => h("code", null, name) },
          { title: "Value", wide: true, cell: ([, value]) => h("code", null, value) },
        ],
      }),
    ),
  );
}
