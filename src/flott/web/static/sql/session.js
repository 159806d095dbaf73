/**
 * A session at the JobManager's SQL gateway: opened when it is needed, kept for this tab, kept open by heartbeats.
 */

import { LogInNeeded, RestError, get, part, post, remove } from "../rest.js";

const ROOT = "/flott/sql";
const KEPT = "flott.sql.session";
const HEARTBEAT = 60000;
/** How long another tab may take to say that a session is its own, in ms. */
const ANSWER = 200;

/** The session is gone: it expired, or its process ended. */
export class SessionLost extends Error {}

export class SqlSession {
  /** `lost(error)` is called when the session turns out to be gone, whatever was asked for. */
  constructor(lost) {
    this.lost = lost;
    this.handle = null;
    this.opening = null;
    this.operations = new Set();
    this.tabs = new BroadcastChannel(KEPT);
    this.tabs.addEventListener("message", ({ data }) => {
      if (data.asked !== undefined && data.asked === this.handle) this.tabs.postMessage({ mine: this.handle });
    });
    setInterval(() => this.beat(), HEARTBEAT);
    window.addEventListener("pagehide", () => this.endOperations());
  }

  /** Return the path of the session; open one if there is none. */
  open() {
    this.opening ||= this.begin().catch((error) => {
      this.opening = null;
      throw error;
    });
    return this.opening;
  }

  async begin() {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) || "null");
    if (kept !== null && !(await this.isElsewhere(kept.handle))) {
      try {
        await post(`${ROOT}/sessions/${part(kept.handle)}/heartbeat`);
        this.handle = kept.handle;
        // A page that was loaded again reads none of its former results any more.
        await Promise.allSettled(kept.operations.map((one) => remove(`${ROOT}/sessions/${part(kept.handle)}/operations/${part(one)}/close`)));
      } catch (error) {
        if (!(error instanceof RestError && error.status === 404)) throw error;
      }
    }
    if (this.handle === null) this.handle = (await post(`${ROOT}/sessions`, { sessionName: "web" })).sessionHandle;
    this.operations.clear();
    this.keep();
    return this.path;
  }

  get path() {
    return `${ROOT}/sessions/${part(this.handle)}`;
  }

  /** Return whether another tab has this session: a browser copies what a tab keeps when the tab is duplicated. */
  isElsewhere(handle) {
    return new Promise((resolve) => {
      const ended = new AbortController();
      const answer = (found) => {
        ended.abort();
        resolve(found);
      };
      this.tabs.addEventListener("message", ({ data }) => data.mine === handle && answer(true), { signal: ended.signal });
      this.tabs.postMessage({ asked: handle });
      setTimeout(() => answer(false), ANSWER);
    });
  }

  keep() {
    if (this.handle === null) sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, JSON.stringify({ handle: this.handle, operations: [...this.operations] }));
  }

  forget() {
    this.handle = null;
    this.opening = null;
    this.operations.clear();
    this.keep();
  }

  async close() {
    const { handle } = this;
    this.forget();
    if (handle !== null) await remove(`${ROOT}/sessions/${part(handle)}`);
  }

  async beat() {
    if (this.handle !== null) await this.ask((path) => post(`${path}/heartbeat`)).catch(() => {}); // the next statement says what is wrong
  }

  /** End what runs, because the page is closed or loaded again: none would read the rows. */
  endOperations() {
    for (const one of this.operations) {
      remove(`${ROOT}/sessions/${part(this.handle)}/operations/${part(one)}/close`, { keepalive: true }).catch(() => {});
    }
  }

  async ask(send) {
    const path = await this.open();
    try {
      return await send(path);
    } catch (error) {
      if (!(error instanceof RestError) || error.status !== 404 || !/session/i.test(error.message)) throw error;
      const lost = new SessionLost(error.message);
      // An answer about a former session may come late: the present one is still there.
      if (this.handle !== null && path === this.path) {
        this.forget();
        this.lost(lost);
      }
      throw lost;
    }
  }

  /** Start a statement; return its operation. */
  async start(statement) {
    const { operationHandle } = await this.ask((path) => post(`${path}/statements`, { statement }));
    this.operations.add(operationHandle);
    this.keep();
    return operationHandle;
  }

  fetch(operation, token) {
    return this.ask((path) => get(`${path}/operations/${part(operation)}/result/${token}?rowFormat=PLAIN_TEXT`));
  }

  /** End an operation and drop its result; it does not matter if it is gone. */
  async end(operation) {
    this.operations.delete(operation);
    this.keep();
    if (this.handle === null) return;
    await remove(`${ROOT}/sessions/${part(this.handle)}/operations/${part(operation)}/close`).catch((error) => {
      if (error instanceof LogInNeeded) throw error;
    });
  }

  /** Run a statement that ends, and return its rows. */
  async rows(statement) {
    const operation = await this.start(statement);
    const found = [];
    try {
      for (let token = 0; ; ) {
        const page = await this.fetch(operation, token);
        if (page.results) found.push(...page.results.data.map((row) => row.fields));
        if (page.resultType === "EOS") return found;
        if (page.resultType === "NOT_READY") await pause(60);
        else token += 1;
      }
    } finally {
      await this.end(operation);
    }
  }

  async complete(text) {
    return (await this.ask((path) => post(`${path}/complete-statement`, { statement: text, position: Array.from(text).length }))).candidates;
  }
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Resolves once the page of SQL is looked at: rows of a query are not read for a hidden tab, or for another page. */
export function whenSeen() {
  const isSeen = () => !document.hidden && location.hash.startsWith("#/sql");
  return new Promise((resolve) => {
    const look = () => {
      if (!isSeen()) return;
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("hashchange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    window.addEventListener("hashchange", look);
    look();
  });
}

export function sqlState(options) {
  return get(ROOT, options);
}

export function endSession(handle) {
  return remove(`${ROOT}/sessions/${part(handle)}`);
}

export function endProcess() {
  return remove(ROOT);
}
