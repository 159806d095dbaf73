/**
 * A small chart without axes, for a line of a table. It shows the shape; the number stands beside it.
 */

import { s } from "../elements.js";
import { isNumber } from "../format.js";

const WIDTH = 120;
const HEIGHT = 28;

export function sparkline(values, label) {
  const known = (values || []).filter(isNumber);
  const top = Math.max(1e-9, ...known);
  const step = values && values.length > 1 ? WIDTH / (values.length - 1) : 0;
  const points = (values || [])
    .map((value, index) => (isNumber(value) ? [index * step, HEIGHT - 2 - (value / top) * (HEIGHT - 4)] : null))
    .filter((point) => point !== null)
    .map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
  return s(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
    points.length > 1
      ? [
          s("polygon", { class: "area", points: `0,${HEIGHT} ${points.join(" ")} ${points.at(-1).split(",")[0]},${HEIGHT}` }),
          s("polyline", { class: "curve", points: points.join(" ") }),
        ]
      : s("line", { class: "baseline", x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2 }),
  );
}
