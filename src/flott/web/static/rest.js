/**
 * Access to the REST API of the JobManager that served this page. No other module sends requests.
 *
 * Addresses are relative, so that the web UI works behind a proxy with a path of its own. The token is sent once, when
 * logging in, and is kept by the browser in a cookie that scripts cannot read.
 */

const ROOT = "../";

/** The server's clock minus the viewer's, in ms, from the last answer that told it. */
let clockOffset = 0;

/** An answer that is an error: `status`, and the server's sentence as the message. */
export class RestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** No answer: the JobManager is gone, or is not the leader. */
export class Unreachable extends Error {}

/** The JobManager wants a token. */
export class LogInNeeded extends Error {}

/** Return the time by the server's clock, in ms, so that ages are right where clocks differ. */
export function now() {
  return Date.now() + clockOffset;
}

/** Encode one segment of a path, or one value of a query. */
export const part = encodeURIComponent;

/** Append a query: nulls and empty texts are left out. */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length === 0 ? path : `${path}?${given.map(([name, value]) => `${part(name)}=${part(value)}`).join("&")}`;
}

async function send(method, path, { body, form, signal, keepalive = false } = {}) {
  // Pages of another origin cannot set this header. A browser says itself where a request comes from, but not of a GET
  // without TLS.
  const headers = { "X-Requested-With": "flott-web" };
  const options = { method, headers, signal, keepalive, cache: "no-cache", credentials: "same-origin", redirect: "error" };
  if (form !== undefined) options.body = form;
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(ROOT + path.replace(/^\//, ""), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The JobManager does not answer.");
  }
  const serverNow = Number(response.headers.get("X-Flott-Now"));
  if (serverNow > 0) clockOffset = serverNow - Date.now();
  if (response.ok) return response;
  const message = await errorText(response);
  if (response.status === 401) throw new LogInNeeded(message);
  if (response.status === 503 && response.headers.has("Retry-After")) throw new Unreachable(message);
  throw new RestError(response.status, message);
}

async function errorText(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).errors.join(" ");
  } catch {
    return text.slice(0, 500) || `The JobManager answered with status ${response.status}.`;
  }
}

/** Return the JSON of a path. */
export async function get(path, options) {
  return (await send("GET", path, options)).json();
}

/** Return the JSON of a path, or null if the JobManager has nothing there. */
export async function getOrNull(path, options) {
  try {
    return await get(path, options);
  } catch (error) {
    if (error instanceof RestError && (error.status === 404 || error.status === 409)) return null;
    throw error;
  }
}

/** Return a text with its headers, for logs. */
export async function getText(path, options) {
  const response = await send("GET", path, options);
  return { text: await response.text(), headers: response.headers };
}

export async function post(path, body = {}) {
  return (await send("POST", path, { body })).json();
}

export async function patch(path) {
  return (await send("PATCH", path)).json();
}

export async function put(path, body) {
  return (await send("PUT", path, { body })).json();
}

/** Delete something; `keepalive`: also if the page is closed meanwhile. */
export async function remove(path, options) {
  return (await send("DELETE", path, options)).json();
}

/** Upload a program; return its id. */
export async function upload(file) {
  const form = new FormData();
  form.append("jarfile", file, file.name);
  const { filename } = await (await send("POST", "/jars/upload", { form })).json();
  return filename.split("/").pop();
}

/**
 * Wait for the outcome of an operation that was started with an order.
 * `path` is where the outcome is found, without the request id.
 */
export async function outcome(path, requestId) {
  for (let pause = 200; ; pause = Math.min(2000, pause * 1.5)) {
    const { status, operation } = await get(`${path}/${part(requestId)}`);
    if (status.id === "COMPLETED") {
      const cause = operation && (operation["failure-cause"] || operation.failureCause);
      if (cause) throw new RestError(500, firstLine(cause["stack-trace"] || cause.class || "The operation failed."));
      return operation || {};
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function firstLine(text) {
  return text.split("\n").find((line) => line.trim() !== "") || text;
}

let allowed = null;

/** Return what the JobManager allows web pages to do; it does not change while it runs. */
export async function features() {
  allowed ||= (await get("/config")).features;
  return allowed;
}

/** Return whether a token is needed, and whether this browser has shown it. */
export function session() {
  return get("/flott/session");
}

/** Show the token. The browser keeps the answer's cookie; the token itself is kept nowhere. */
export function logIn(token) {
  return post("/flott/session", { token });
}

export function logOut() {
  return remove("/flott/session");
}
