/**
 * SQL: an editor, the tables of the session, and results with a table, a chart and a plan.
 *
 * The session and its results stay when another page is shown, so that a query goes on while its job is looked at.
 */

import { confirm, notify } from "../dialogs.js";
import { h, morphChildren } from "../elements.js";
import { count, duration } from "../format.js";
import { button, card, cardWith, moment, table } from "../parts.js";
import { LogInNeeded } from "../rest.js";
import { Catalog } from "../sql/catalog.js";
import { Editor } from "../sql/editor.js";
import { Runner } from "../sql/run.js";
import { resultView, statusOf } from "../sql/result_view.js";
import { SessionLost, SqlSession, endProcess, endSession, sqlState } from "../sql/session.js";
import { errorPlace, firstWord, holdsSecret, statementAt, statements } from "../sql/text.js";

const DRAFT = "flott.sql.draft";
const HISTORY = "flott.sql.history";
const MAX_HISTORY = 50;
const MAX_KEPT = 10000;
const TICK = 500;
const CHANGES_TABLES = new Set(["CREATE", "DROP", "ALTER", "USE", "LOAD", "UNLOAD"]);

const EXAMPLES = [
  [
    "Count generated orders",
    `-- Orders that a generator makes, counted as they come. Ctrl+Enter runs the statement at the cursor.
CREATE TEMPORARY TABLE IF NOT EXISTS generated_orders (
  id BIGINT,
  country INT,
  price INT
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '20',
  'fields.country.min' = '1', 'fields.country.max' = '6',
  'fields.price.min' = '5', 'fields.price.max' = '500'
);

SELECT country, COUNT(*) AS orders, SUM(price) AS revenue
FROM generated_orders
GROUP BY country;
`,
  ],
  [
    "Query a few values",
    `SELECT name, score
FROM (VALUES ('Ada', 36), ('Grace', 42), ('Edsger', CAST(NULL AS INT))) AS people(name, score)
WHERE score IS NULL OR score > 10;
`,
  ],
  ["What is there", "SHOW CATALOGS;\nSHOW DATABASES;\nSHOW TABLES;\nSHOW FUNCTIONS;\n"],
];

let bench = null;

export default { title: () => "SQL", load, view, pause: 10000 };

async function load(_, signal) {
  return sqlState({ signal });
}

/** What stays when another page is shown. */
class Bench {
  constructor() {
    this.context = null;
    this.session = new SqlSession((error) => this.onLost(error));
    this.catalog = new Catalog(this.session, (text) => this.editor.insert(text), () => this.drawCatalog());
    this.runner = new Runner(this.session, (error) => this.changed(error));
    this.shown = 0; // the index of the result that is shown
    this.picked = false; // the reader chose it
    this.lost = null;
    this.timer = null;
    this.results = h("div", { class: "stack" });
    this.tree = h("div", null);
    this.tools = h("div", { class: "row" });
    this.editor = new Editor({
      suggest: (text, at) => this.suggest(text, at),
      run: () => this.runSome(),
      changed: () => this.keepDraft(),
      focused: () => this.begin(),
    });
    this.editor.text = sessionStorage.getItem(DRAFT) || "";
    this.draw();
    this.drawCatalog();
  }

  /** Open the session, unless it is open, and show its tables. */
  async begin() {
    if (this.session.opening !== null) return;
    try {
      await this.session.open();
      await this.catalog.refresh();
      this.context.refresh();
    } catch (error) {
      this.report(error);
    }
  }

  async suggest(text, at) {
    const statement = statements(text).findLast((one) => one.start < at);
    if (statement === undefined) return [];
    return this.session.complete(text.slice(statement.start, at));
  }

  keepDraft() {
    const { text } = this.editor;
    if (holdsSecret(text) || text.length > MAX_KEPT) sessionStorage.removeItem(DRAFT);
    else sessionStorage.setItem(DRAFT, text);
    this.drawTools();
  }

  /** Return the statements that are selected, or the one at the cursor. */
  chosen() {
    const { text, selection } = this.editor;
    if (selection.start !== selection.end) {
      const part = text.slice(selection.start, selection.end);
      return statements(part).map((one) => ({ text: one.text, start: one.start + selection.start, end: one.end + selection.start }));
    }
    const one = statementAt(text, selection.start);
    return one === null ? [] : [one];
  }

  runSome() {
    return this.run(this.chosen());
  }

  runAll() {
    return this.run(statements(this.editor.text));
  }

  explain() {
    const [one] = this.chosen();
    if (one === undefined) return this.run([]);
    const bare = one.text.replace(/^\s*EXPLAIN\s+(?:(?:PLAN\s+FOR|ESTIMATED_COST|CHANGELOG_MODE|JSON_EXECUTION_PLAN|PLAN_ADVICE)[\s,]*)*/i, "");
    const head = "EXPLAIN JSON_EXECUTION_PLAN ";
    const before = one.text.length - bare.length;
    return this.run([{ text: head + bare, start: one.start + before - head.length, end: one.end }], [one]);
  }

  async run(list, history = list) {
    if (list.length === 0) {
      notify("There is no statement to run: write one, or take an example.", "bad");
      return;
    }
    remember(history.map((one) => one.text));
    this.shown = 0;
    this.picked = false;
    if (this.session.handle !== null) this.lost = null; // else the reader may not have seen it yet
    this.editor.point(null);
    this.context.update(); // the history has changed
    try {
      await this.runner.run(list);
    } catch (error) {
      this.report(error);
    }
    if (list.some((one) => CHANGES_TABLES.has(firstWord(one.text))) && this.session.handle !== null) {
      await this.catalog.refresh().catch((error) => this.report(error));
    } else if (this.catalog.root.children === null && this.session.handle !== null) {
      this.catalog.refresh();
    }
  }

  stop() {
    this.runner.stop().catch((error) => this.report(error));
  }

  async restart() {
    await this.runner.stop().catch(() => {});
    try {
      await this.session.close();
    } catch (error) {
      this.report(error);
    }
    this.runner.results = [];
    this.catalog.forget();
    this.draw();
    this.drawCatalog();
    await this.begin();
    notify("A new session was opened.");
  }

  changed(error) {
    if (error) {
      const at = this.runner.results.findIndex((result) => result.status === "failed" && result.error === error);
      if (at >= 0) this.pointAt(this.runner.results[at], at);
      this.report(error);
    }
    const { results } = this.runner;
    // The statement that runs is shown, until the reader chooses another one.
    if (!this.picked && results.length > 1) this.shown = Math.max(0, results.findLastIndex((one) => one.status !== "waiting" && !(one.status === "stopped" && one.began === null)));
    this.draw();
  }

  pointAt(result, index) {
    this.shown = index;
    const place = errorPlace(result.statement.text, result.error.message);
    const { start } = result.statement;
    const length = this.editor.text.length;
    if (place !== null && start + place.start <= length) this.editor.point({ start: start + place.start, end: start + place.end });
  }

  report(error) {
    if (error instanceof LogInNeeded) this.context.refresh();
    else if (error instanceof SessionLost) this.draw(); // onLost has told it
    else if (!this.runner.results.some((result) => result.error === error)) {
      notify(error.message, "bad");
    }
    this.draw();
  }

  onLost(error) {
    this.lost = `${error.message} Its temporary tables and settings are gone; a new session takes the next statement.`;
    this.catalog.forget();
    this.drawCatalog();
    this.draw();
    this.context.refresh();
  }

  /** Draw the results; while something runs, again every moment, for its time. */
  draw() {
    clearTimeout(this.timer);
    const { results } = this.runner;
    const shown = results[Math.min(this.shown, results.length - 1)];
    morphChildren(
      this.results,
      h(
        "div",
        null,
        this.lost === null ? null : h("p", { class: "problem", role: "alert" }, this.lost),
        results.length > 1 ? this.tabs(results) : null,
        shown === undefined ? null : resultView(shown, () => this.draw()),
      ),
    );
    this.drawTools();
    if (this.runner.active) this.timer = setTimeout(() => this.draw(), TICK);
  }

  tabs(results) {
    const choose = (index) => () => {
      this.picked = true;
      this.shown = index;
      this.draw();
    };
    return h(
      "div",
      { class: "choice statements", role: "group", "aria-label": "Statements" },
      results.map((result, index) =>
        h(
          "button",
          { type: "button", "aria-pressed": String(index === this.shown), title: result.statement.text.slice(0, 300), on: { click: choose(index) } },
          `${result.number}. ${firstWord(result.statement.text)}`,
          h("span", { class: "quiet" }, ` ${statusOf(result)}`),
        ),
      ),
    );
  }

  drawTools() {
    const { active } = this.runner;
    const many = statements(this.editor.text).length > 1;
    morphChildren(
      this.tools,
      h(
        "div",
        null,
        button("Run", () => this.runSome(), { class: "button primary", title: "Ctrl+Enter" }),
        many ? button("Run all", () => this.runAll()) : null,
        button("Explain", () => this.explain()),
        button("Stop", () => this.stop(), { disabled: !active, class: active ? "button danger-text" : "button" }),
        h("span", { class: "quiet editor-hint", id: "editor-hint" }, "Ctrl+Enter runs the statement at the cursor, or the selection; Ctrl+Space suggests words."),
      ),
    );
  }

  drawCatalog() {
    morphChildren(this.tree, h("div", null, this.catalog.view()));
  }
}

function remember(texts) {
  const kept = texts.filter((text) => !holdsSecret(text) && text.length <= MAX_KEPT);
  const all = [...kept.reverse(), ...recalled()];
  localStorage.setItem(HISTORY, JSON.stringify([...new Set(all)].slice(0, MAX_HISTORY)));
}

function recalled() {
  try {
    const found = JSON.parse(localStorage.getItem(HISTORY) || "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function view(state, context) {
  if (!state.available) return unavailable(state);
  bench ||= new Bench();
  bench.context = context;
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "title" },
      h("h1", null, "SQL"),
      h("div", { class: "row" }, button("New session", () => bench.restart(), { title: "Close this session with its temporary tables and settings, and open another one" })),
    ),
    state["last-end"] !== null && bench.session.handle === null ? h("p", { class: "problem" }, state["last-end"]) : null,
    h(
      "div",
      { class: "sql" },
      h("section", { class: "card sql-side" }, h("h2", null, "Tables"), h("div", { key: "tree", island: bench.tree })),
      h(
        "div",
        { class: "stack" },
        card(null, h("div", { key: "editor", island: bench.editor.node }), h("div", { key: "tools", class: "tools", island: bench.tools }), samples(context)),
        h("div", { class: "card results", "aria-live": "off" }, h("h2", null, "Result"), h("div", { key: "results", island: bench.results }), bench.runner.results.length === 0 ? h("p", { class: "empty" }, "Run a statement, and its rows appear here.") : null),
      ),
    ),
    sessionsCard(state, context),
  );
}

function samples(context) {
  const take = (text) => () => {
    bench.editor.text = text;
    bench.editor.focus();
    context.update();
  };
  const history = recalled();
  const forget = () => {
    localStorage.removeItem(HISTORY);
    context.update();
  };
  return h(
    "div",
    { class: "row samples" },
    h("details", { open: true }, h("summary", null, "Examples"), h("div", { class: "row" }, EXAMPLES.map(([name, text]) => button(name, take(text), { class: "button small" })))),
    history.length === 0
      ? null
      : h(
          "details",
          null,
          h("summary", null, `History (${history.length})`),
          h(
            "ul",
            { class: "history" },
            history.map((text) => h("li", null, h("button", { class: "as-link", type: "button", title: text.slice(0, 500), on: { click: take(`${text};\n`) } }, text.replace(/\s+/g, " ").slice(0, 160)))),
          ),
          button("Clear the history", forget, { class: "button small" }),
        ),
  );
}

function sessionsCard(state, context) {
  const own = bench.session.handle;
  const close = (one) =>
    confirm({
      title: "Close the session",
      text: "Its queries end, and its temporary tables and settings are gone. Jobs of INSERT statements go on.",
      button: "Close it",
      danger: true,
      act: async () => {
        await endSession(one.sessionHandle);
        context.refresh();
        return "The session was closed.";
      },
    });
  const restart = () =>
    confirm({
      title: "End all SQL sessions",
      text: "The process of the SQL sessions is ended, for all users of this JobManager. Its queries end; jobs of INSERT statements go on.",
      button: "End all",
      danger: true,
      act: async () => {
        await endProcess();
        context.refresh();
        return "All sessions were ended.";
      },
    });
  const limits = `At most ${count(state["max-sessions"])} at a time; one that is not used for ${duration(state["idle-timeout"])} is closed.`;
  return h(
    "details",
    { class: "behind sessions" },
    h("summary", null, `Sessions of this JobManager (${state.sessions.length})`),
    cardWith(
      "Sessions",
      state.process === null ? null : button("End all…", restart, { class: "button danger-text" }),
      h("p", { class: "quiet" }, state.process === null ? limits : `${limits} They run in process ${state.process}, whose output is in sql.out among the logs.`),
      table({
        caption: "Sessions",
        rows: state.sessions,
        key: (one) => one.sessionHandle,
        empty: "No session is open.",
        columns: [
          { title: "Session", cell: (one) => h("code", null, `${one.sessionHandle.slice(0, 8)}${one.sessionHandle === own ? " (this page)" : ""}`) },
          { title: "Opened by", wide: true, cell: (one) => one.sessionName || "a client" },
          { title: "Opened", cell: (one) => moment(one.opened) },
          { title: "Last request", cell: (one) => moment(one.used) },
          { title: "Statements", number: true, cell: (one) => count(one.statements) },
          { title: "Orders", cell: (one) => button("Close…", () => close(one), { class: "button small danger-text" }) },
        ],
      }),
    ),
  );
}

function unavailable(state) {
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "SQL")),
    card(
      "SQL is not available",
      h("p", null, state.reason),
      state.install === null ? null : h("p", null, "Install it where the JobManager runs, and start the JobManager again:"),
      state.install === null ? null : h("pre", { class: "code" }, state.install),
    ),
  );
}
