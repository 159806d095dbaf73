/**
 * A part of a whole as a bar, with both numbers beside it.
 */

import { h } from "../elements.js";
import { percent } from "../format.js";

/** `warns`: whether a bar that is almost full is a warning. The most so far is not: it stays, also when there is room again. */
export function shareBar(used, whole, format, warns = true) {
  const share = whole > 0 ? Math.max(0, Math.min(1, used / whole)) : 0;
  return h(
    "span",
    { class: "share-bar" },
    h("span", { class: "share-track", role: "img", "aria-label": percent(share) }, h("span", { class: warns && share > 0.9 ? "full" : "used", css: { width: `${share * 100}%` } })),
    h("span", null, `${format(Math.max(0, used))} of ${format(whole)}`),
  );
}
