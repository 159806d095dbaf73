/**
 * The log of a job: its own lines, those of its operators, and what they print.
 */

import { loadLog, logView } from "../log_view.js";
import { card } from "../parts.js";
import { part } from "../rest.js";
import { jobPage } from "./job_frame.js";

export default jobPage({
  tab: "log",
  load: (context, signal, path) => loadLog(context, signal, `${path}/log`),
  view: (log, context, job) =>
    card("Log", logView(log, context, { download: { path: `/jobs/${part(job.id)}/log`, name: `${job.id}.log` } })),
});
