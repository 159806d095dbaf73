/**
 * The one way to make elements, and the one way to change a page in place.
 *
 * `h` and `s` build HTML and SVG elements. Text becomes text nodes, so that names and records of users, which are
 * hostile input, can never become markup. Nothing else in the web UI creates elements.
 *
 * Pages build their whole content again from data. `morph` then changes the shown elements into the new ones, and leaves
 * alone what is equal: focus, scroll position, selected text and typed values survive an update.
 *
 * Fields belong to two: to the data, which gives them a value, and to the reader, who changes it. The rules:
 * - A choice (a box to check, a list) always shows the data. What the reader chooses has to be told to the data at once.
 * - A text takes the value of the data when the data gives another one than before, and is the reader's otherwise. A text
 *   that is being typed, in a field that has the focus, is never replaced.
 * - A field without a value of the data (`value` or `checked`) is the reader's alone.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Elements whose value a reader changes. */
const FIELDS = new Set(["input", "select", "textarea"]);

/** Marks an element that holds an island. */
const ISLAND = "data-island";

/** Attributes that would run code or load markup. */
const FORBIDDEN = /^(on|style$|srcdoc$|innerhtml$)/i;

/**
 * Build an HTML element: h("a", { class: "link", href: "#/", on: { click } }, "text", child, [children]).
 * Attributes that are null, undefined or false are left out. `css` sets CSS properties, `key` identifies a child of a
 * list for `morph`. `island` is an element that changes itself, such as an editor: `morph` leaves it alone.
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
    if (name === "checked") node.given = node.checked = value === true;
    if (value === null || value === undefined || value === false || name === "checked") continue;
    if (name === "on") listen(node, value);
    else if (name === "css") for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else if (name === "key") node.dataKey = String(value);
    else if (name === "island") land(node, value);
    else if (name === "value" && FIELDS.has(node.localName)) give(node, value);
    else if (name === "href") node.setAttribute("href", safeAddress(value));
    else if (FORBIDDEN.test(name)) throw new Error(`The attribute ${name} is not allowed.`);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  if (node.localName === "select" && node.given !== undefined) node.value = node.given; // its options exist now
  return node;
}

/** Set the value of a field, and remember that it is the data's. */
function give(node, value) {
  node.given = String(value);
  node.value = node.given;
}

function land(node, island) {
  node.island = island;
  node.setAttribute(ISLAND, "");
  if (!island.isConnected) node.append(island); // else it is on the page, and this node may only be compared
}

/** A node has come onto the page, perhaps in place of another one: the islands that are its own come into it. */
function bringIslands(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  for (const holder of [node, ...node.querySelectorAll(`[${ISLAND}]`)]) {
    if (holder.island !== undefined && holder.island.parentNode !== holder) holder.append(holder.island);
  }
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
  const wantedKeys = new Set(Array.from(wanted.childNodes, (child) => child.dataKey));
  let cursor = shown.firstChild;
  let surplus = shown.childNodes.length - wanted.childNodes.length; // how many more are left there than are wanted yet
  for (const next of Array.from(wanted.childNodes)) {
    let match = matching(cursor, next, keyed);
    // What is gone is taken away first, so that what stood behind it is found again and keeps its focus.
    while (surplus > 0 && cursor !== null && match !== cursor && (cursor.dataKey === undefined || !wantedKeys.has(cursor.dataKey))) {
      const gone = cursor;
      cursor = cursor.nextSibling;
      gone.remove();
      keyed.delete(gone.dataKey);
      surplus -= 1;
      match ??= matching(cursor, next, keyed);
    }
    if (match === null) {
      const replaced = cursor;
      if (isOtherField(cursor, next)) cursor = cursor.nextSibling;
      shown.insertBefore(next, cursor);
      bringIslands(next);
      surplus += 1;
      if (replaced !== cursor) {
        replaced.remove();
        surplus -= 1;
      }
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
  const alike = cursor !== null && cursor.dataKey === undefined && cursor.nodeName === next.nodeName;
  return alike && !isOtherField(cursor, next) ? cursor : null;
}

/** Whether two nodes in the same place are fields for different things: the text of one is not for the other. */
function isOtherField(shown, wanted) {
  if (shown === null || shown.dataKey !== undefined || shown.nodeName !== wanted.nodeName || !FIELDS.has(wanted.localName)) return false;
  return ["name", "type", "aria-label"].some((name) => shown.getAttribute(name) !== wanted.getAttribute(name));
}

/** Change one node into another of the same name. */
export function morph(shown, wanted) {
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return;
  }
  if (shown.nodeType !== Node.ELEMENT_NODE) return;
  if (shown.island !== undefined && shown.island === wanted.island) return;
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
  if (shown.localName === "select") {
    morphSelect(shown, wanted);
    return;
  }
  if (FIELDS.has(shown.localName)) {
    follow(shown, wanted);
    return; // the child of a text area is only its first value
  }
  morphChildren(shown, wanted);
}

/** Let a field follow the data, as the rules on top say. */
function follow(shown, wanted) {
  const { given } = shown;
  shown.given = wanted.given;
  if (wanted.given === undefined) return;
  if (typeof wanted.given === "boolean") shown.checked = wanted.given;
  else if (wanted.given !== given && !isBeingTyped(shown, given)) shown.value = wanted.given;
}

/** Whether the reader is writing in a field: it has the focus and a text that the data has not given. */
function isBeingTyped(field, given) {
  return field === document.activeElement && field.value !== (given ?? "");
}

/** A list without a value of the data keeps the choice of the reader while there is such an option. */
function morphSelect(shown, wanted) {
  const chosen = shown.value;
  morphChildren(shown, wanted);
  const options = Array.from(shown.options, (option) => option.value);
  const value = [wanted.given, chosen].find((one) => options.includes(one)) ?? wanted.value;
  shown.given = wanted.given;
  if (shown.value !== value) shown.value = value;
}
