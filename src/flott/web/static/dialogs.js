/**
 * Questions before an order, and short messages after it. Dialogs are the browser's own, so that the keyboard, the focus
 * and Escape work as everywhere.
 */

import { h } from "./elements.js";

/** How long a notice is shown that nothing depends on. */
const NOTICE_MS = 12000;

/**
 * Ask before an order. `text` says what will happen. `fields` are form elements with a name; their values are given to
 * `act`, which sends the order and returns what to show afterwards: a sentence, or { text, copy } with a text to copy.
 * The dialog stays open with the error if the order is refused. It ends with its page, and Escape closes it while the
 * order is under way; what becomes of the order is then told in a notice that stays.
 */
export function confirm({ title, text, fields = [], button, danger = false, act }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const submit = h("button", { class: danger ? "button danger" : "button primary", type: "submit" }, button);
  const cancel = h("button", { class: "button", type: "button", on: { click: () => dialog.close() } }, "Back");
  const form = h(
    "form",
    { method: "dialog", on: { submit: (event) => send(event) } },
    h("h2", { id: "dialog-title" }, title),
    [text].flat().map((paragraph) => (paragraph instanceof Node ? paragraph : h("p", null, paragraph))),
    fields,
    problem,
    h("div", { class: "row end" }, cancel, submit),
  );
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-labelledby": "dialog-title", on: { close: gone } },
    form,
  );
  const leave = () => dialog.close();
  window.addEventListener("hashchange", leave);

  function gone() {
    window.removeEventListener("hashchange", leave);
    dialog.remove();
  }

  async function send(event) {
    event.preventDefault();
    submit.disabled = true;
    submit.textContent = "Working…";
    problem.hidden = true;
    try {
      const said = await act(new FormData(form));
      dialog.close();
      if (said) notify(said);
    } catch (error) {
      if (!dialog.isConnected) {
        notify(`${title}: ${error.message}`, "bad");
        return;
      }
      problem.textContent = error.message;
      problem.hidden = false;
      submit.disabled = false;
      submit.textContent = button;
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Show a short message for a few seconds: a sentence, or { text, copy }, where `copy` is a text such as a path. One with
 * a text to copy stays until it is closed, since it may be the only place that has it; so does bad news.
 */
export function notify(said, kind = "good") {
  const { text, copy: wanted = null } = typeof said === "string" ? { text: said } : said;
  let place = document.querySelector(".notices");
  if (place === null) {
    place = h("div", { class: "notices", role: "status" });
    document.body.append(place);
  }
  const copying = wanted === null ? null : [" ", h("code", null, wanted)];
  const copier = wanted === null ? null : h("button", { class: "button small", type: "button", on: { click: (event) => copy(wanted, event.currentTarget) } }, "Copy");
  const notice = h("div", { class: `notice ${kind}` }, h("span", null, text, copying), copier, closing());
  place.append(notice);
  if (wanted === null && kind === "good") setTimeout(() => notice.remove(), NOTICE_MS);

  function closing() {
    return h("button", { class: "plain", "aria-label": "Close", on: { click: () => notice.remove() } }, "✕");
  }
}

/** A labelled text field of a dialog or form. */
export function field(label, name, attributes = {}, hint = null) {
  return h(
    "label",
    { class: "field" },
    h("span", { class: "label" }, label),
    h("input", { name, type: "text", autocomplete: "off", spellcheck: "false", ...attributes }),
    hint ? h("span", { class: "hint" }, hint) : null,
  );
}

export function checkbox(label, name, attributes = {}) {
  return h("label", { class: "check" }, h("input", { name, type: "checkbox", ...attributes }), h("span", null, label));
}

/** Copy by selecting: a browser has no clipboard object on pages that come over http from another host. */
function copySelected(text, button) {
  const field = h("textarea", { class: "hidden", readonly: true, "aria-hidden": "true", tabindex: "-1" }, text);
  button.after(field); // and not at the end of the page, which cannot be selected while a dialog is open
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  button.focus();
  if (!done) throw new Error("The browser refused to copy.");
}

/** Copy a text, and say so on the button that was clicked. */
export async function copy(text, button) {
  const before = button.textContent;
  try {
    if (navigator.clipboard === undefined) copySelected(text, button);
    else await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "The browser refused";
  }
  setTimeout(() => {
    button.textContent = before;
  }, 2000);
}
