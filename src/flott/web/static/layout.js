/**
 * The places of a graph's nodes: layers from left to right. Pure; the picture is drawn in pictures/graph.js.
 *
 * Three steps, as in every layered drawing: each node goes one layer behind its last predecessor; nodes of a layer are
 * ordered by the mean place of their neighbours, a few times in both directions; then each layer is centred.
 */

const SWEEPS = 6;

/**
 * Return { nodes: Map id → { x, y, width, height, layer }, edges: [{ ...edge, points }], width, height }.
 * `nodes` have an id, a width and a height; `edges` a source and a target. Edges of a cycle are drawn but place nothing.
 */
export function layout(nodes, edges, { gapX = 110, gapY = 36, margin = 12 } = {}) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const known = edges.filter((edge) => byId.has(edge.source) && byId.has(edge.target));
  const layerOf = layers(nodes, known);
  const columns = [];
  for (const node of nodes) (columns[layerOf.get(node.id)] ||= []).push(node.id);
  order(columns, known);
  const heights = columns.map((ids) => ids.reduce((sum, id) => sum + byId.get(id).height, 0) + gapY * (ids.length - 1));
  const height = Math.max(0, ...heights);
  const places = new Map();
  let x = margin;
  for (const [layer, ids] of columns.entries()) {
    const width = Math.max(...ids.map((id) => byId.get(id).width));
    let y = margin + (height - heights[layer]) / 2;
    for (const id of ids) {
      const node = byId.get(id);
      places.set(id, { x, y, width: node.width, height: node.height, layer });
      y += node.height + gapY;
    }
    x += width + gapX;
  }
  const width = columns.length === 0 ? 0 : x - gapX + margin;
  return { nodes: places, edges: lines(known, places), width, height: height + 2 * margin };
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

function order(columns, edges) {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const indices = [...columns.keys()];
    for (const layer of forward ? indices : indices.reverse()) sortByNeighbours(columns, layer, edges, forward);
  }
}

function sortByNeighbours(columns, layer, edges, forward) {
  const place = new Map();
  for (const ids of columns) for (const [index, id] of ids.entries()) place.set(id, (index + 0.5) / ids.length);
  const weight = new Map();
  for (const id of columns[layer]) {
    const around = edges.filter((edge) => (forward ? edge.target : edge.source) === id);
    const places = around.map((edge) => place.get(forward ? edge.source : edge.target));
    weight.set(id, places.length === 0 ? place.get(id) : places.reduce((sum, one) => sum + one, 0) / places.length);
  }
  columns[layer].sort((one, other) => weight.get(one) - weight.get(other));
}

/** Edges leave on the right and arrive on the left; several of one node are spread over its side. */
function lines(edges, places) {
  const ends = (side) => {
    const groups = new Map();
    for (const edge of edges) (groups.get(edge[side]) || groups.set(edge[side], []).get(edge[side])).push(edge);
    const other = side === "source" ? "target" : "source";
    const found = new Map();
    for (const [id, group] of groups) {
      group.sort((one, two) => places.get(one[other]).y - places.get(two[other]).y);
      const box = places.get(id);
      for (const [index, edge] of group.entries()) found.set(edge, box.y + (box.height * (index + 1)) / (group.length + 1));
    }
    return found;
  };
  const starts = ends("source");
  const arrivals = ends("target");
  return edges.map((edge) => {
    const from = places.get(edge.source);
    const to = places.get(edge.target);
    return { ...edge, from: { x: from.x + from.width, y: starts.get(edge) }, to: { x: to.x, y: arrivals.get(edge) } };
  });
}
