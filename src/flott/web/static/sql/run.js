/**
 * Statements that run, one after the other, and their results. `changed` is called when there is something new to show.
 */

import { MAX_ROWS, Rows } from "./rows.js";
import { pause, whenSeen } from "./session.js";
import { sentenceOf } from "./text.js";

/** Between two pages of a query that gives rows, in ms, and the longest pause while none come. */
const PACE = 200;
const LONGEST = 1000;

export class Result {
  constructor(statement, number) {
    this.statement = statement; // { text, start, end } in the editor
    this.number = number;
    this.status = "waiting"; // running, reading, done, failed, stopped
    this.columns = [];
    this.rows = new Rows();
    this.job = null;
    this.isQuery = false;
    this.plain = false; // it succeeded, and there is nothing to show
    this.error = null;
    this.operation = null;
    this.began = null;
    this.ended = null;
    this.view = null; // chosen by the reader
    this.page = 0;
    this.chart = null;
  }

  get active() {
    return this.status === "waiting" || this.status === "running" || this.status === "reading";
  }

  get elapsed() {
    return this.began === null ? null : (this.ended ?? performance.now()) - this.began;
  }

  finish(status, error = null) {
    if (!this.active) return;
    this.status = status;
    this.error = error;
    this.ended = performance.now();
  }
}

export class Runner {
  constructor(session, changed) {
    this.session = session;
    this.changed = changed;
    this.results = [];
    this.runs = 0;
  }

  get active() {
    return this.results.some((result) => result.active);
  }

  /** Run statements in order; the first that fails ends the run. Results and queries of the run before are dropped. */
  async run(list) {
    this.runs += 1;
    const run = this.runs;
    const former = this.results;
    const results = list.map((statement, index) => new Result(statement, index + 1));
    this.results = results;
    this.changed();
    await Promise.all(former.map((result) => this.drop(result)));
    for (const result of results) {
      if (run !== this.runs || !result.active) break;
      if (!(await this.execute(result))) {
        for (const one of results) if (one.status === "waiting") one.finish("stopped");
        break;
      }
    }
    this.changed();
  }

  /** Have everything end that runs. */
  async stop() {
    await Promise.all(this.results.filter((result) => result.active).map((result) => this.drop(result)));
    this.changed();
  }

  async drop(result) {
    const { operation } = result;
    result.finish("stopped");
    result.operation = null;
    if (operation !== null) await this.session.end(operation);
  }

  /** Run a statement until its result is known; rows of a query are read on while others run. Return false if it failed. */
  async execute(result) {
    result.began = performance.now();
    result.status = "running";
    this.changed();
    try {
      const operation = await this.session.start(result.statement.text);
      if (!result.active) {
        await this.session.end(operation);
        return false;
      }
      result.operation = operation;
      let first;
      for (let ms = 30; ; ms = Math.min(400, ms * 1.4)) {
        first = await this.session.fetch(result.operation, 0);
        if (!result.active) return false;
        if (first.resultType !== "NOT_READY") break;
        await pause(ms);
        if (!result.active) return false;
      }
      result.columns = first.results.columns;
      result.job = first.jobID || null;
      result.isQuery = first.isQueryResult === true;
      result.plain = first.resultKind === "SUCCESS";
      result.status = "reading";
      const reading = this.read(result, first);
      if (!result.isQuery) await reading; // a query that has started gives its rows beside the statements behind it
      return result.status !== "failed";
    } catch (error) {
      this.fail(result, error);
      return false;
    }
  }

  async read(result, first) {
    try {
      let reply = first;
      let ms = PACE;
      for (let token = 0; result.active; ) {
        const data = reply.results ? reply.results.data : [];
        result.rows.take(data);
        this.changed();
        if (reply.resultType === "EOS") {
          result.finish("done");
          break;
        }
        token += 1;
        ms = data.length > 0 ? PACE : Math.min(LONGEST, ms * 1.5);
        await pause(result.isQuery ? ms : 0);
        if (result.isQuery) await whenSeen();
        if (!result.active) return;
        reply = await this.session.fetch(result.operation, token);
      }
      if (result.operation !== null) await this.session.end(result.operation);
      result.operation = null;
    } catch (error) {
      this.fail(result, error);
    }
    this.changed();
  }

  fail(result, error) {
    if (!result.active) return;
    result.finish("failed", error);
    if (result.operation !== null) this.session.end(result.operation).catch(() => {});
    result.operation = null;
    this.changed(error);
  }
}

/** Return a sentence about what is shown of a result. */
export function aboutRows(result) {
  const { rows } = result;
  const kept = rows.cut > 0 ? `, the last ${MAX_ROWS.toLocaleString("en-US")} are kept` : "";
  const total = rows.size + rows.cut;
  const changes = rows.updates ? `, ${rows.count.toLocaleString("en-US")} changes` : "";
  return `${total.toLocaleString("en-US")} ${total === 1 ? "row" : "rows"}${kept}${changes}`;
}

export function problemOf(result) {
  return result.error === null ? null : sentenceOf(result.error.message);
}
