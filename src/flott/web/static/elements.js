/**
 * The one way to make elements, and the one way to change a page in place.
 *
 * `h` and `s` build HTML and SVG elements. Text becomes text nodes, so that names and records of users, which are
 * hostile input, can never become markup. Nothing else in the web UI creates elements.
 *
 * Pages build their whole content again from data. `morph` then changes the shown elements into the new ones, and leaves
 * alone what is equal: focus, scroll position, selected text and typed values survive an update.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Attributes that would run code or load markup. */
const FORBIDDEN = /^(on|style$|srcdoc$|innerhtml$)/i;

/**
 * Build an HTML element: h("a", { class: "link", href: "#/", on: { click } }, "text", child, [children]).
 * Attributes that are null, undefined or false are left out. `css` sets CSS properties, `key` identifies a child of a
 * list for `morph`.
 */
export function h(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** Build an SVG element, with the same rules. */
export function s(tag, attributes, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(node, attributes, children) {
  node.handlers = {};
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") listen(node, value);
    else if (name === "css") for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else if (name === "key") node.dataKey = String(value);
    else if (name === "value" && "value" in node) node.value = value;
    else if (name === "href") node.setAttribute("href", safeAddress(value));
    else if (FORBIDDEN.test(name)) throw new Error(`The attribute ${name} is not allowed.`);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  if (node.localName === "select" && attributes && attributes.value !== undefined) node.value = attributes.value;
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function listen(node, handlers) {
  node.handlers = handlers;
  for (const [name, handler] of Object.entries(handlers)) node[`on${name}`] = handler;
}

/** Links lead to pages of the web UI, or to files of the same JobManager; never to a scheme such as javascript:. */
function safeAddress(address) {
  const text = String(address);
  return text.startsWith("#") || text.startsWith("../") || text.startsWith("blob:") ? text : "#/";
}

/** Change the children of `shown` into those of `wanted`. */
export function morphChildren(shown, wanted) {
  const keyed = new Map();
  for (const child of shown.childNodes) if (child.dataKey !== undefined) keyed.set(child.dataKey, child);
  let cursor = shown.firstChild;
  for (const next of Array.from(wanted.childNodes)) {
    const match = matching(cursor, next, keyed);
    if (match === null) {
      shown.insertBefore(next, cursor);
    } else {
      if (match === cursor) cursor = cursor.nextSibling;
      else shown.insertBefore(match, cursor);
      morph(match, next);
    }
  }
  while (cursor !== null) {
    const after = cursor.nextSibling;
    cursor.remove();
    cursor = after;
  }
}

function matching(cursor, next, keyed) {
  if (next.dataKey !== undefined) {
    const found = keyed.get(next.dataKey);
    keyed.delete(next.dataKey);
    return found && found.nodeName === next.nodeName ? found : null;
  }
  return cursor !== null && cursor.dataKey === undefined && cursor.nodeName === next.nodeName ? cursor : null;
}

/** Change one node into another of the same name. */
export function morph(shown, wanted) {
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return;
  }
  if (shown.nodeType !== Node.ELEMENT_NODE) return;
  for (const { name } of Array.from(shown.attributes)) {
    // A reader opens and closes details; CSS properties are compared below.
    if (name !== "style" && name !== "open" && !wanted.hasAttribute(name)) shown.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (name !== "style" && name !== "open" && shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  if (shown.style.cssText !== wanted.style.cssText) shown.style.cssText = wanted.style.cssText;
  for (const name of Object.keys(shown.handlers || {})) if (!(name in (wanted.handlers || {}))) shown[`on${name}`] = null;
  listen(shown, wanted.handlers || {});
  if (shown.localName === "textarea") return; // its child is only the first value
  const chosen = shown.localName === "select" ? shown.value : null;
  morphChildren(shown, wanted);
  if (chosen !== null && shown.value !== chosen) shown.value = chosen;
}
