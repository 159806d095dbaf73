/**
 * The text of EXPLAIN: its sections, and the nodes of the last one for the drawing. Pure.
 */

/** Return [{ title, text }] of a text with heads like "== Title ==". */
export function sections(text) {
  const parts = text.split(/^== (.+?) ==\s*$/m);
  const found = [];
  for (let index = 1; index + 1 < parts.length; index += 2) found.push({ title: parts[index], text: parts[index + 1].trim() });
  return found;
}

/** Return { vertices, edges } of the operators in JSON, or null if the text has none. */
export function drawn(text) {
  const section = sections(text).find((one) => one.title === "Physical Execution Plan");
  if (section === undefined) return null;
  let nodes;
  try {
    ({ nodes } = JSON.parse(section.text));
  } catch {
    return null;
  }
  const vertices = nodes.map((node) => ({
    id: String(node.id),
    name: node.contents || node.type,
    parallelism: node.parallelism,
    status: String(node.pact || "operator"),
    operators: linesOf(node.contents || node.type).map((name) => ({ name })),
  }));
  const edges = nodes.flatMap((node) =>
    (node.predecessors || []).map((input) => ({
      source: String(input.id), target: String(node.id), "ship-strategy": input.ship_strategy, "records-per-second": null,
    })),
  );
  return { vertices, edges };
}

/** Return an operator as a few lines: its name, then its attributes. */
export function linesOf(text) {
  const match = /^([A-Za-z]+)\((.*)\)$/s.exec(text);
  if (match === null) return [text];
  const attributes = match[2].split(/(?<=\]), /).map((one) => one.trim());
  return [match[1], ...attributes.filter((one) => one !== "")];
}
