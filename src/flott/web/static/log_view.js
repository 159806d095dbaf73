/**
 * A log that is followed, searched and filtered by level. Used by the pages of the JobManager's and of a job's log.
 */

import { h } from "./elements.js";
import { bytes } from "./format.js";
import { choice, select } from "./parts.js";
import { getText, withQuery } from "./rest.js";

const LEVELS = [["", "all levels"], ["INFO", "info and above"], ["WARNING", "warnings and above"], ["ERROR", "errors"]];
const FIRST_LINES = 500;
const KEPT_LINES = 3000;

/** Ask for what was written since the last answer, and keep it in the page's state. */
export async function loadLog(context, signal, path, { canFilter = true } = {}) {
  const level = canFilter ? context.query.level || "" : "";
  const search = context.query.search || "";
  const log = logOf(context, `${path}|${level}|${search}`);
  if (log.cursor !== null && context.state.follow === false) return log;
  const query = { level, search, ...(log.cursor === null ? { tail: FIRST_LINES } : { offset: log.cursor }) };
  const { text, headers } = await getText(withQuery(path, query), { signal });
  const cursor = headers.get("X-Flott-Log-Cursor");
  if (cursor === null) log.lines = text.split("\n"); // a log without positions comes as a whole
  else log.lines.push(...text.split("\n"));
  log.cursor = cursor;
  log.lines = log.lines.filter((line) => line !== "").slice(-KEPT_LINES);
  return log;
}

function logOf(context, key) {
  if (!context.state.log || context.state.log.key !== key) context.state.log = { key, cursor: null, lines: [] };
  return context.state.log;
}

/** The controls and the lines. */
export function logView(log, context, { canFilter = true, download }) {
  const follow = context.state.follow !== false;
  const setFollow = (value) => {
    context.state.follow = value === "follow";
    context.refresh();
  };
  const search = context.query.search || "";
  const box = h("div", { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log lines" }, log.lines.map((line) => lineOf(line, search)));
  if (follow && isAtEnd()) requestAnimationFrame(scrollDown);
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h(
        "form",
        { class: "row", role: "search", on: { submit: (event) => seek(event, context) } },
        h("input", { type: "search", name: "search", value: search, placeholder: "Search", "aria-label": "Search the log" }),
        h("button", { class: "button", type: "submit" }, "Search"),
      ),
      canFilter ? select("Level", LEVELS, context.query.level || "", (level) => context.go({ level })) : null,
      choice("Follow the log", [["follow", "Follow"], ["hold", "Hold"]], follow ? "follow" : "hold", setFollow),
      download ? h("a", { class: "quiet", href: `..${download.path}`, download: download.name }, `Download ${download.size ? bytes(download.size) : ""}`) : null,
    ),
    log.lines.length === 0 ? h("p", { class: "empty" }, search ? "No line has this text." : "The log is empty.") : box,
    h("p", { class: "quiet" }, `${log.lines.length} lines${log.lines.length >= KEPT_LINES ? ", the last ones" : ""}. Times of lines are the server's.`),
  );
}

function seek(event, context) {
  event.preventDefault();
  context.go({ search: new FormData(event.target).get("search") });
}

/** Whether the last line is in sight. Who has scrolled up to read is left there. */
function isAtEnd() {
  const box = document.querySelector(".log");
  return box === null || box.scrollHeight - box.scrollTop - box.clientHeight < 40;
}

function scrollDown() {
  const box = document.querySelector(".log");
  if (box !== null) box.scrollTop = box.scrollHeight;
}

function lineOf(line, search) {
  const [, time, level, rest] = /^(\S+ \S+ )(WARNING|ERROR|CRITICAL)(.*)$/.exec(line) || [null, "", "", line];
  const kind = level === "WARNING" ? "warn" : "bad";
  return h("div", null, time, level === "" ? null : h("span", { class: kind }, level), search === "" ? rest : marked(rest, search));
}

/** The line with the text that was searched for marked; case is ignored. */
export function marked(line, search) {
  const parts = [];
  const lower = line.toLowerCase();
  const wanted = search.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(line.slice(from, at), h("mark", null, line.slice(at, at + search.length)));
    from = at + search.length;
  }
  return [...parts, line.slice(from)];
}
