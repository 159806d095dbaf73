/**
 * The places of a graph's nodes and the ways of its edges: layers from left to right. Pure; the picture is drawn in
 * pictures/graph.js.
 *
 * Four steps, as in every layered drawing: each node goes one layer behind its last predecessor; an edge over several
 * layers gets a bend in each layer between, which takes room as a node does, so that no edge runs behind a box; nodes and
 * bends of a layer are ordered by the mean place of their neighbours, a few times in both directions; then each comes as
 * close to the height of its neighbours as the others of its layer allow.
 */

const SWEEPS = 6;

/** The room that a bend takes in the height of its layer: that of the label which may stand there. */
const BEND = 36;

/**
 * Return { nodes: Map id → { x, y, width, height, layer }, edges: [{ ...edge, from, to, bends, label }], width, height }.
 * `nodes` have an id, a width and a height; `edges` a source and a target. `bends` are { left, right, y }: the edge runs
 * level there. `label` is a place for a text. Edges of a cycle are drawn but place nothing.
 */
export function layout(nodes, edges, { gapX = 110, gapY = 36, margin = 12 } = {}) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const known = edges.filter((edge) => byId.has(edge.source) && byId.has(edge.target));
  const layerOf = layers(nodes, known);
  const columns = [];
  for (const node of nodes) (columns[layerOf.get(node.id)] ||= []).push(node.id);
  const heights = new Map(nodes.map((node) => [node.id, node.height]));
  const { steps, ways } = bent(known, layerOf, columns, heights);
  order(columns, steps);
  const middles = placed(columns, steps, heights, gapY);
  const top = Math.min(...[...middles].map(([id, middle]) => middle - heights.get(id) / 2), Infinity);
  const places = new Map();
  const sides = [];
  let x = margin;
  for (const [layer, ids] of columns.entries()) {
    const width = Math.max(...ids.map((id) => (byId.has(id) ? byId.get(id).width : 0)));
    sides.push({ left: x, right: x + width });
    for (const id of ids) {
      const height = heights.get(id);
      places.set(id, { x, y: margin + middles.get(id) - height / 2 - top, width: byId.has(id) ? byId.get(id).width : width, height, layer });
    }
    x += width + gapX;
  }
  const bottom = Math.max(0, ...[...places.values()].map((place) => place.y + place.height));
  const drawn = lines(known, places, ways, sides);
  const found = new Map([...places].filter(([id]) => byId.has(id)));
  return { nodes: found, edges: drawn, width: columns.length === 0 ? 0 : x - gapX + margin, height: bottom + margin };
}

/** The layer of each node: the length of the longest path to it. */
export function layers(nodes, edges) {
  const inputs = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of edges) inputs.get(edge.target).push(edge.source);
  const found = new Map();
  const visiting = new Set();
  const visit = (id) => {
    if (found.has(id)) return found.get(id);
    if (visiting.has(id)) return -1; // an edge that closes a cycle
    visiting.add(id);
    const layer = Math.max(-1, ...inputs.get(id).map(visit)) + 1;
    visiting.delete(id);
    found.set(id, layer);
    return layer;
  };
  for (const node of nodes) visit(node.id);
  return found;
}

/** Add a bend to each layer that an edge passes. Return the bends of each edge, and steps from layer to layer. */
function bent(edges, layerOf, columns, heights) {
  const steps = [];
  const ways = new Map();
  for (const edge of edges) {
    const bends = [];
    let before = edge.source;
    for (let layer = layerOf.get(edge.source) + 1; layer < layerOf.get(edge.target); layer += 1) {
      const bend = Symbol("bend");
      columns[layer].push(bend);
      heights.set(bend, BEND);
      steps.push({ source: before, target: bend });
      bends.push(bend);
      before = bend;
    }
    steps.push({ source: before, target: edge.target });
    ways.set(edge, bends);
  }
  return { steps, ways };
}

function order(columns, steps) {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const indices = [...columns.keys()];
    for (const layer of forward ? indices : indices.reverse()) sortByNeighbours(columns, layer, steps, forward);
  }
}

function sortByNeighbours(columns, layer, steps, forward) {
  const place = new Map();
  for (const ids of columns) for (const [index, id] of ids.entries()) place.set(id, (index + 0.5) / ids.length);
  const weight = new Map();
  for (const id of columns[layer]) weight.set(id, mean(neighbours(id, steps, forward).map((one) => place.get(one))) ?? place.get(id));
  columns[layer].sort((one, other) => weight.get(one) - weight.get(other));
}

function neighbours(id, steps, forward) {
  return steps.filter((step) => (forward ? step.target : step.source) === id).map((step) => (forward ? step.source : step.target));
}

function mean(values) {
  return values.length === 0 ? null : values.reduce((sum, one) => sum + one, 0) / values.length;
}

/** The middle of each node in the height: first one below the other, then drawn to its neighbours, a few times. */
function placed(columns, steps, heights, gap) {
  const middles = new Map();
  for (const ids of columns) {
    const whole = ids.reduce((sum, id) => sum + heights.get(id), 0) + gap * (ids.length - 1);
    let y = -whole / 2;
    for (const id of ids) {
      middles.set(id, y + heights.get(id) / 2);
      y += heights.get(id) + gap;
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const ordered = forward ? columns : [...columns].reverse();
    for (const ids of ordered) {
      const wanted = ids.map((id) => mean(neighbours(id, steps, forward).map((one) => middles.get(one))) ?? middles.get(id));
      const distances = ids.map((id, index) => (index === 0 ? 0 : gap + (heights.get(ids[index - 1]) + heights.get(id)) / 2));
      for (const [index, middle] of apart(wanted, distances).entries()) middles.set(ids[index], middle);
    }
  }
  return middles;
}

/**
 * Return the numbers closest to the wanted ones, in least squares, of which each is at least its distance above the one
 * before: neighbours that want to overlap are moved as one block.
 */
export function apart(wanted, distances) {
  const offsets = [];
  for (const [index, distance] of distances.entries()) offsets.push((index === 0 ? 0 : offsets[index - 1]) + distance);
  const blocks = [];
  for (const [index, value] of wanted.entries()) {
    blocks.push({ sum: value - offsets[index], count: 1 });
    while (blocks.length > 1 && height(blocks.at(-2)) >= height(blocks.at(-1))) {
      const last = blocks.pop();
      blocks.at(-1).sum += last.sum;
      blocks.at(-1).count += last.count;
    }
  }
  const levels = blocks.flatMap((block) => Array(block.count).fill(height(block)));
  return levels.map((level, index) => level + offsets[index]);
}

function height(block) {
  return block.sum / block.count;
}

/** Edges leave on the right and arrive on the left; several of one node are spread over its side. */
function lines(edges, places, ways, sides) {
  const next = (edge, side) => {
    const bends = ways.get(edge);
    const other = side === "source" ? (bends[0] ?? edge.target) : (bends.at(-1) ?? edge.source);
    return places.get(other).y + places.get(other).height / 2;
  };
  const ends = (side) => {
    const groups = new Map();
    for (const edge of edges) (groups.get(edge[side]) || groups.set(edge[side], []).get(edge[side])).push(edge);
    const found = new Map();
    for (const [id, group] of groups) {
      group.sort((one, two) => next(one, side) - next(two, side));
      const box = places.get(id);
      for (const [index, edge] of group.entries()) found.set(edge, box.y + (box.height * (index + 1)) / (group.length + 1));
    }
    return found;
  };
  const starts = ends("source");
  const arrivals = ends("target");
  const drawn = edges.map((edge) => {
    const source = places.get(edge.source);
    const from = { x: source.x + source.width, y: starts.get(edge) };
    const to = { x: places.get(edge.target).x, y: arrivals.get(edge) };
    const bends = ways.get(edge).map((id) => ({ ...sides[places.get(id).layer], y: places.get(id).y + BEND / 2 }));
    return { ...edge, from, to, bends, label: labelPlace(from, to, bends) };
  });
  spreadLabels(drawn);
  return drawn;
}

/** The text of an edge stands in the middle of the gap that it crosses, or on its first level part. */
function labelPlace(from, to, bends) {
  if (bends.length === 0) return { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  return { x: (bends[0].left + bends[0].right) / 2, y: bends[0].y };
}

/** Labels of one gap are moved apart. */
function spreadLabels(edges) {
  const gaps = new Map();
  for (const edge of edges) {
    if (edge.bends.length === 0) (gaps.get(edge.label.x) || gaps.set(edge.label.x, []).get(edge.label.x)).push(edge);
  }
  for (const group of gaps.values()) {
    group.sort((one, other) => one.label.y - other.label.y);
    const middles = apart(group.map((edge) => edge.label.y), group.map((_, index) => (index === 0 ? 0 : BEND)));
    for (const [index, edge] of group.entries()) edge.label.y = middles[index];
  }
}
