/**
 * The pages and their addresses. An address is the part behind #, so that the JobManager serves one file for all.
 *
 * A page is an object with
 *   title(context)        the title of the browser tab,
 *   load(context, signal) a promise of the data that the page shows (asked again every `pause` ms),
 *   view(data, context)   an element made of that data,
 *   pause                 optional; 0: asked once.
 * `context` has params (of the address), query, state (of this page until it is left), update() to show the same data
 * again, refresh() to ask again, and go(query) to change the query of the address.
 */

import checkpoints from "./pages/checkpoints.js";
import configuration from "./pages/configuration.js";
import executor from "./pages/executor.js";
import executors from "./pages/executors.js";
import failure from "./pages/failure.js";
import job from "./pages/job.js";
import jobConfiguration from "./pages/job_configuration.js";
import jobLog from "./pages/job_log.js";
import logs from "./pages/logs.js";
import overview from "./pages/overview.js";
import preview from "./pages/preview.js";
import sql from "./pages/sql.js";
import state from "./pages/state.js";
import submit from "./pages/submit.js";
import time from "./pages/time.js";
import timeline from "./pages/timeline.js";

const PAGES = [
  ["/", overview],
  ["/executors", executors],
  ["/executors/:executor", executor],
  ["/submit", submit],
  ["/sql", sql],
  ["/configuration", configuration],
  ["/logs", logs],
  ["/jobs/:job", job],
  ["/jobs/:job/timeline", timeline],
  ["/jobs/:job/time", time],
  ["/jobs/:job/checkpoints", checkpoints],
  ["/jobs/:job/state", state],
  ["/jobs/:job/failure", failure],
  ["/jobs/:job/preview", preview],
  ["/jobs/:job/log", jobLog],
  ["/jobs/:job/configuration", jobConfiguration],
];

/** Return { page, params, query } of an address, or null if no page has it. */
export function find(address) {
  const [path, query = ""] = address.replace(/^#?/, "").split("?");
  const segments = path.split("/").filter((segment) => segment !== "");
  for (const [pattern, page] of PAGES) {
    const params = match(pattern.split("/").filter((segment) => segment !== ""), segments);
    if (params !== null) return { page, params, path, query: Object.fromEntries(new URLSearchParams(query)) };
  }
  return null;
}

function match(pattern, segments) {
  if (pattern.length !== segments.length) return null;
  const params = {};
  for (const [index, wanted] of pattern.entries()) {
    if (wanted.startsWith(":")) params[wanted.slice(1)] = decoded(segments[index]);
    else if (wanted !== segments[index]) return null;
  }
  return params;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
