/**
 * A small chart for a line of a table: the last ten minutes, from zero to its largest value, which stands beside it. Equal
 * widths are equal times, so a young job has a short line at the right.
 */

import { h, s } from "../elements.js";
import { isNumber } from "../format.js";
import { path } from "./line_chart.js";

const WIDTH = 100;
const HEIGHT = 28;
const BASE = HEIGHT - 2;

/** The time that the width is, in ms: as long as the JobManager keeps the numbers of a job. */
export const SPAN = 600000;

/** `at` are the times of the values, the last one is at the right. `format` writes the largest value. */
export function sparkline({ at, values, format, label }) {
  const known = values.filter(isNumber);
  const most = Math.max(0, ...known);
  const x = placeOf(at.at(-1));
  const y = (value) => BASE - (value / Math.max(1e-9, most)) * (HEIGHT - 4);
  const curve = path(at, values, x, y);
  return h(
    "span",
    { class: "sparkline" },
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
      s("line", { class: "baseline", x1: 0, x2: WIDTH, y1: BASE, y2: BASE }),
      known.length > 1
        ? [
            s("path", { class: "area", d: `${curve}L${WIDTH} ${BASE}L${x(at[values.findIndex(isNumber)]).toFixed(1)} ${BASE}Z` }),
            s("path", { class: "curve", d: curve }),
          ]
        : null,
    ),
    h("span", { class: "most", title: "the largest value of these minutes" }, known.length > 1 ? `max ${format(most)}` : ""),
  );
}

/** Return the place of a time in the width: the last one is at the right, earlier ones by their distance. */
export function placeOf(last) {
  return (time) => WIDTH - (Math.min(SPAN, Math.max(0, last - time)) / SPAN) * WIDTH;
}

/** Return the mean of each of the last minutes, the latest first; null: nothing is known of it. */
export function minuteMeans(at, values, minutes = 10) {
  const sums = Array.from({ length: minutes }, () => ({ sum: 0, count: 0 }));
  const last = at.at(-1);
  for (const [index, value] of values.entries()) {
    const minute = Math.floor((last - at[index]) / 60000);
    if (!isNumber(value) || minute >= minutes) continue;
    sums[minute].sum += value;
    sums[minute].count += 1;
  }
  return sums.map(({ sum, count }) => (count === 0 ? null : sum / count));
}
