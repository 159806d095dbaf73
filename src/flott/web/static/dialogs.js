/**
 * Questions before an order, and short messages after it. Dialogs are the browser's own, so that the keyboard, the focus
 * and Escape work as everywhere.
 */

import { h } from "./elements.js";

/**
 * Ask before an order. `text` says what will happen. `fields` are form elements with a name; their values are given to
 * `act`, which sends the order and returns the sentence to show afterwards. The dialog stays open with the error if the
 * order is refused.
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
    { class: "dialog", "aria-labelledby": "dialog-title", on: { close: () => dialog.remove() } },
    form,
  );

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

/** Show a short message for a few seconds. */
export function notify(text, kind = "good") {
  let place = document.querySelector(".notices");
  if (place === null) {
    place = h("div", { class: "notices", role: "status" });
    document.body.append(place);
  }
  const notice = h("div", { class: `notice ${kind}` }, h("span", null, text), closing());
  place.append(notice);
  setTimeout(() => notice.remove(), 12000);

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

/** Copy a text, and say so on the button that was clicked. */
export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it";
  }
  setTimeout(() => {
    button.textContent = before;
  }, 2000);
}
