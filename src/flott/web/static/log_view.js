/**
 * A log that is followed, searched and filtered by level. Used by the pages of the JobManager's and of a job's log.
 */

import { h } from "./elements.js";
import { bytes, count } from "./format.js";
import { choice, select } from "./parts.js";
import { getText, withQuery } from "./rest.js";

const LEVELS = [["", "all levels"], ["INFO", "info and above"], ["WARNING", "warnings and above"], ["ERROR", "errors"]];
const FIRST_LINES = 500;
const KEPT_LINES = 3000;
/** So many are kept while a reader has scrolled up, so that what is read does not go away. */
const MOST_LINES = 20000;

/** Ask for what was written since the last answer, and keep it in the page's state. */
export async function loadLog(context, signal, path, { canFilter = true } = {}) {
  const level = canFilter ? context.query.level || "" : "";
  const search = context.query.search || "";
  const log = logOf(context, `${path}|${level}|${search}`, search);
  if (log.cursor !== null && context.state.follow === false) return log;
  const query = { level, search, ...(log.cursor === null ? { tail: FIRST_LINES } : { offset: log.cursor }) };
  const { text, headers } = await getText(withQuery(path, query), { signal });
  signal.throwIfAborted(); // another request has asked for the same lines
  log.cursor = headers.get("X-Flott-Log-Cursor");
  log.take(text.split("\n").filter((line) => line !== ""));
  return log;
}

function logOf(context, key, search) {
  if (!context.state.log || context.state.log.key !== key) context.state.log = new Lines(key, search);
  return context.state.log;
}

/**
 * The lines on the page. The box changes itself, line by line: what a reader looks at stays where it is, and what is
 * selected stays selected.
 */
class Lines {
  constructor(key, search) {
    Object.assign(this, { key, search, cursor: null, count: 0, dropped: false });
    this.box = h("div", { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log lines" });
  }

  /** Add lines. The first ones make room for them; while a reader has scrolled up, only if there are very many. */
  take(lines) {
    const atEnd = this.isAtEnd;
    this.box.append(...lines.map((line) => lineOf(line, this.search)));
    this.count += lines.length;
    const surplus = this.count - (atEnd ? KEPT_LINES : MOST_LINES);
    if (surplus > 0) this.drop(surplus);
    if (atEnd) requestAnimationFrame(() => this.scrollDown());
  }

  drop(surplus) {
    const { box } = this;
    const [height, top] = [box.scrollHeight, box.scrollTop];
    for (let index = 0; index < surplus; index += 1) box.firstChild.remove();
    box.scrollTop = top - (height - box.scrollHeight);
    this.count -= surplus;
    this.dropped = true;
  }

  /** Whether the last line is in sight. A reader who has scrolled up is left there. */
  get isAtEnd() {
    const { box } = this;
    return !box.isConnected || box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  }

  scrollDown() {
    this.box.scrollTop = this.box.scrollHeight;
  }
}

/** The controls and the lines. */
export function logView(log, context, { canFilter = true, download }) {
  const follow = context.state.follow !== false;
  const setFollow = (value) => {
    context.state.follow = value === "follow";
    if (context.state.follow) log.scrollDown();
    context.refresh();
  };
  const search = context.query.search || "";
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
    log.count === 0 ? h("p", { class: "empty" }, search ? "No line has this text." : "The log is empty.") : h("div", { key: log.key, island: log.box }),
    h("p", { class: "quiet" }, `${count(log.count)} ${log.count === 1 ? "line" : "lines"}${log.dropped ? ", the last ones" : ""}. Times of lines are the server's.`),
  );
}

function seek(event, context) {
  event.preventDefault();
  context.go({ search: new FormData(event.target).get("search") });
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
