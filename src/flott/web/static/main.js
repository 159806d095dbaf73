/**
 * The frame of all pages: head, navigation, the poll of the page that is open, the banner while the JobManager is away,
 * and the log-in.
 */

import { fillInClipboard } from "./clipboard.js";
import { h, morph, morphChildren } from "./elements.js";
import { zone } from "./format.js";
import { Poll } from "./live.js";
import logInPage from "./pages/log_in.js";
import { LogInNeeded, RestError, Unreachable, logOut, session } from "./rest.js";
import { find } from "./routes.js";
import { applyTheme, nextTheme, theme } from "./theme.js";

const PAUSE = 2500;

const NAVIGATION = [
  ["#/", "Overview"],
  ["#/executors", "Executors"],
  ["#/submit", "Submit"],
  ["#/sql", "SQL"],
  ["#/configuration", "Configuration"],
  ["#/logs", "Logs"],
];

const THEMES = { system: "◐ system", light: "☀ light", dark: "☾ dark" };

const head = h("header", { class: "top" });
const banner = h("div", { class: "banner", role: "alert", hidden: true });
const content = h("main", { id: "content", tabindex: "-1" });
const foot = h("footer", { class: "foot" });

let open = null; // { page, context, poll, data }
let account = { "token-required": false, "logged-in": false };

function showFrame() {
  const skip = h("a", { class: "skip", href: "#", on: { click: skipToContent } }, "Skip to the content");
  const wanted = h(
    "header",
    { class: "top" },
    skip,
    h("a", { class: "brand", href: "#/", "aria-label": "Flott: overview" }, h("span", { class: "mark" }), "Flott"),
    h("nav", { "aria-label": "Pages" }, NAVIGATION.map(entry)),
    h(
      "div",
      { class: "row" },
      account["token-required"] && account["logged-in"]
        ? h("button", { class: "plain", type: "button", on: { click: leave } }, "Log out")
        : null,
      h(
        "button",
        { class: "plain", type: "button", "aria-label": `Colours: ${theme()}. Change them.`, on: { click: changeTheme } },
        THEMES[theme()],
      ),
    ),
  );
  morph(head, wanted);
  morph(foot, h("footer", { class: "foot" }, h("span", null, `Times are in ${zone()}.`)));
}

function entry([href, text]) {
  const [path] = (location.hash || "#/").split("?");
  const here = href === "#/" ? path === "#/" : path.startsWith(href);
  return h("a", { href, "aria-current": here ? "page" : null }, text);
}

function skipToContent(event) {
  event.preventDefault();
  content.focus();
}

function changeTheme() {
  nextTheme();
  showFrame();
}

async function leave() {
  await logOut();
  account = await session();
  showPage();
}

/** Show the page of the address. `navigated`: the reader has come from another page of the web UI. */
function showPage(navigated = false) {
  if (open !== null) open.poll.end();
  showFrame();
  const found = find(location.hash || "#/");
  if (found === null) {
    open = null;
    hideBanner();
    document.title = "No such page · Flott";
    const heading = h("h1", { tabindex: "-1" }, "No such page");
    content.replaceChildren(h("div", { class: "empty" }, heading, h("p", null, "There is no such page."), h("a", { href: "#/" }, "Overview")));
    if (navigated) heading.focus();
    return;
  }
  const samePage = open !== null && open.page === found.page && sameParams(open.context.params, found.params);
  const context = {
    params: found.params,
    query: found.query,
    state: samePage ? open.context.state : {},
    update: () => open !== null && open.context === context && open.data !== null && show(open.data),
    refresh: () => open !== null && open.context === context && open.poll.ask(),
    go: (query) => {
      const wanted = Object.entries({ ...context.query, ...query }).filter(([, value]) => value !== null && value !== "");
      const kept = wanted.map(([name, value]) => [name, String(value)]);
      const text = new URLSearchParams(kept).toString();
      const address = `#${found.path}${text === "" ? "" : `?${text}`}`;
      if (address !== location.hash) history.pushState(null, "", address); // Back returns to what was shown before
      context.query = Object.fromEntries(kept);
      context.refresh();
    },
  };
  const poll = new Poll(
    (signal) => found.page.load(context, signal),
    (data) => {
      hideBanner();
      show(data);
    },
    failed,
    () => found.page.pause ?? PAUSE,
  );
  open = { page: found.page, context, poll, data: samePage ? open.data : null, takesFocus: navigated && !samePage };
  document.title = `${found.page.title(context)} · Flott`;
  if (!samePage) {
    content.replaceChildren(h("p", { class: "waiting", "aria-busy": "true" }, "Loading…"));
    window.scrollTo(0, 0);
  }
  poll.ask();
}

function sameParams(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

function show(data) {
  open.data = data;
  const wanted = h("main", null, open.page.view(data, open.context));
  const heading = wanted.querySelector("h1");
  if (heading !== null) heading.setAttribute("tabindex", "-1");
  if (content.querySelector(".waiting") !== null) content.replaceChildren(...wanted.childNodes);
  else morphChildren(content, wanted);
  document.title = `${open.page.title(open.context, data)} · Flott`;
  if (open.takesFocus) focusHeading();
}

/** After navigation, the keyboard and screen readers go on at the heading of the new page. */
function focusHeading() {
  open.takesFocus = false;
  const heading = content.querySelector("h1");
  const elsewhere = content.contains(document.activeElement) || document.querySelector("dialog[open]") !== null;
  if (heading !== null && !elsewhere) heading.focus({ preventScroll: true });
}

/** Say what is wrong: log in, wait for the JobManager, or show its sentence. */
function failed(error) {
  if (error instanceof LogInNeeded) {
    account = { "token-required": true, "logged-in": false };
    showLogIn();
  } else if (error instanceof Unreachable) {
    showBanner(`${error.message} The page shows what was known last, and asks again.`);
  } else if (error instanceof RestError) {
    hideBanner();
    if (open.data === null) {
      content.replaceChildren(
        h("div", { class: "empty" }, h("h1", { tabindex: "-1" }, "Not available"), h("p", null, error.message), h("a", { href: "#/" }, "Overview")),
      );
      if (open.takesFocus) focusHeading();
    } else {
      showBanner(error.message);
    }
  } else {
    showBanner(`The page failed: ${error.message}`);
    console.error(error);
  }
}

function showLogIn() {
  if (open !== null) open.poll.end();
  open = null;
  showFrame();
  hideBanner();
  document.title = "Log in · Flott";
  content.replaceChildren(logInPage(start));
  content.querySelector("input").focus();
}

function showBanner(text) {
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = false;
  document.documentElement.dataset.connection = "lost";
}

function hideBanner() {
  banner.hidden = true;
  document.documentElement.dataset.connection = "live";
}

/** Ask whether a token is needed, then open the page of the address. */
async function start() {
  try {
    account = await session();
  } catch (error) {
    if (error instanceof Unreachable) {
      showFrame();
      showBanner(`${error.message} The page asks again.`);
      setTimeout(start, 2000);
      return;
    }
    if (!(error instanceof RestError)) throw error;
  }
  if (account["token-required"] && !account["logged-in"]) showLogIn();
  else showPage();
}

applyTheme();
fillInClipboard();
document.body.append(head, banner, content, foot);
showFrame();
window.addEventListener("hashchange", () => {
  if (open === null && account["token-required"] && !account["logged-in"]) return;
  showPage(true);
});
start();
