/**
 * The clipboard where the browser gives none: without TLS, and not on localhost, `navigator.clipboard` does not exist.
 * A text is then selected in a hidden field, and copied as the keyboard would. Callers use the standard API.
 */

import { h } from "./elements.js";

/** Give `navigator` a clipboard that can be written to, if it has none. */
export function fillInClipboard() {
  if (navigator.clipboard) return;
  Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
}

async function writeText(text) {
  const before = document.activeElement;
  const field = h("textarea", { class: "hidden", readonly: true, "aria-hidden": "true", value: text });
  // A dialog takes the focus of the rest of the page, so the field has to be in it.
  (document.querySelector("dialog[open]") || document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (before !== null) before.focus({ preventScroll: true });
  if (!done) throw new Error("The browser does not copy.");
}
