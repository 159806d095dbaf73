/**
 * A flame graph: which functions the samples of a process were in. A bar is as wide as its share of all samples; what it
 * called stands below it.
 */

import { h, s } from "../elements.js";
import { percent } from "../format.js";

const WIDTH = 1150;
const ROW = 19;
const MAX_ROWS = 40;
/** Bars narrower than this cannot be seen. */
const MIN_SHARE = 0.002;

/** `tree` is { name, value, children }. */
export function flameGraph(tree) {
  const bars = barsOf(tree);
  const rows = Math.max(0, ...bars.map((bar) => bar.depth)) + 1;
  return h(
    "div",
    { class: "timeline-scroll", tabindex: "0", role: "region", "aria-label": "Flame graph" },
    s(
      "svg",
      { width: WIDTH, height: rows * ROW, viewBox: `0 0 ${WIDTH} ${rows * ROW}`, role: "img", "aria-label": "Flame graph; the table has the numbers" },
      bars.map((bar) => drawn(bar)),
    ),
  );
}

/** Every bar with its depth, its start and its share of all samples. */
export function barsOf(tree) {
  const found = [];
  const walk = (node, depth, start) => {
    let from = start;
    for (const child of node.children) {
      const share = child.value / Math.max(1, tree.value);
      if (share >= MIN_SHARE && depth < MAX_ROWS) {
        found.push({ name: child.name, depth, from, share });
        walk(child, depth + 1, from);
      }
      from += share;
    }
  };
  walk(tree, 0, 0);
  return found;
}

/** The functions in which samples were taken themselves, the most frequent first. */
export function ownShares(tree) {
  const own = new Map();
  const walk = (node) => {
    const called = node.children.reduce((sum, child) => sum + child.value, 0);
    if (node !== tree && node.value > called) own.set(node.name, (own.get(node.name) || 0) + node.value - called);
    node.children.forEach(walk);
  };
  walk(tree);
  return [...own].map(([name, samples]) => ({ name, samples, share: samples / Math.max(1, tree.value) })).sort((one, other) => other.samples - one.samples);
}

function drawn(bar) {
  const width = bar.share * WIDTH;
  const letters = Math.floor((width - 8) / 6.6);
  const shown = bar.name.length > letters ? `${bar.name.slice(0, Math.max(0, letters - 1))}…` : bar.name;
  return s(
    "g",
    null,
    s("title", null, `${bar.name}: ${percent(bar.share)}`),
    s("rect", { class: bar.depth % 2 === 0 ? "flame even" : "flame", x: bar.from * WIDTH, y: bar.depth * ROW, width: Math.max(0.5, width - 1), height: ROW - 1 }),
    letters > 2 ? s("text", { class: "flame-name", x: bar.from * WIDTH + 4, y: bar.depth * ROW + 13 }, shown) : null,
  );
}
