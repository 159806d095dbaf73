/**
 * The tree of catalogs, databases, tables and columns of a session. What is opened is asked for then.
 */

import { h } from "../elements.js";
import { button, tag } from "../parts.js";
import { quoted } from "./text.js";

/** More names than this are not shown in one place of the tree. */
const MOST = 300;

/** A long name may be broken behind an underscore or a dot, and not in the middle of a word. */
function breakable(name) {
  return name.split(/(?<=[_.])/).flatMap((piece, index) => (index === 0 ? [piece] : [h("wbr"), piece]));
}

export class Catalog {
  /** `insert(text)` is called with a name that the reader chose; `changed` when there is something new to show. */
  constructor(session, insert, changed) {
    Object.assign(this, { session, insert, changed });
    this.forget();
  }

  /** A new session: nothing is known. */
  forget() {
    this.root = { path: [], kind: "root", open: true, children: null, problem: null, loading: false };
  }

  /** Ask again for everything that is open. */
  async refresh() {
    const known = this.opened(this.root);
    await this.load(this.root, known);
  }

  opened(node) {
    return new Set((node.children || []).flatMap((child) => (child.open ? [keyOf(child), ...this.opened(child)] : [])));
  }

  async load(node, alsoOpen = new Set()) {
    node.loading = true;
    this.changed();
    try {
      node.children = await this.childrenOf(node);
      node.problem = null;
    } catch (error) {
      node.problem = error.message;
    }
    node.loading = false;
    this.changed();
    for (const child of node.children || []) {
      if (child.kind !== "column" && (alsoOpen.has(keyOf(child)) || child.current)) {
        child.open = true;
        await this.load(child, alsoOpen);
      }
    }
  }

  async childrenOf(node) {
    const { session } = this;
    const path = node.path.map(quoted).join(".");
    const made = (kind) => (name) => ({ path: [...node.path, name], name, kind, open: false, children: null, problem: null, loading: false });
    if (node.kind === "root") {
      const catalogs = (await session.rows("SHOW CATALOGS")).map(([name]) => name);
      const [[current]] = await session.rows("SHOW CURRENT CATALOG");
      const [[database]] = await session.rows("SHOW CURRENT DATABASE");
      this.current = [current, database];
      return catalogs.map(made("catalog")).map((one) => ({ ...one, current: one.name === current }));
    }
    if (node.kind === "catalog") {
      const databases = await session.rows(`SHOW DATABASES IN ${path}`);
      return databases.map(([name]) => made("database")(name)).map((one) => ({ ...one, current: this.current.join() === one.path.join() }));
    }
    if (node.kind === "database") {
      const tables = await session.rows(`SHOW TABLES IN ${path}`);
      const views = new Set((await session.rows(`SHOW VIEWS IN ${path}`)).map(([name]) => name));
      return tables.map(([name]) => made(views.has(name) ? "view" : "table")(name));
    }
    return (await session.rows(`DESCRIBE ${path}`)).map(([name, type, , key, extras, watermark]) => ({
      ...made("column")(name), type, key: key !== null, watermark: watermark !== null, computed: extras,
    }));
  }

  view() {
    const { root } = this;
    if (root.problem !== null) return h("p", { class: "problem" }, root.problem);
    if (root.children === null) return h("p", { class: "quiet" }, root.loading ? "Opening a session…" : "Tables appear here once a session is open.");
    return h("ul", { class: "tree", "aria-label": "Catalogs" }, root.children.map((child) => this.node(child)));
  }

  node(node) {
    if (node.kind === "column") return this.column(node);
    const toggle = () => {
      node.open = !node.open;
      if (node.open && node.children === null) this.load(node);
      else this.changed();
    };
    const isTable = node.kind === "table" || node.kind === "view";
    return h(
      "li",
      { key: keyOf(node) },
      h(
        "div",
        { class: "tree-row" },
        h("button", { class: "plain tree-name", type: "button", "aria-expanded": String(node.open), on: { click: toggle } }, h("span", { class: "twist", "aria-hidden": "true" }, node.open ? "▾" : "▸"), h("span", null, breakable(node.name))),
        node.kind === "view" ? tag("view") : null,
        isTable ? button("+", () => this.insert(this.shortest(node)), { class: "plain tree-insert", title: "Insert the name", "aria-label": `Insert the name ${node.name}` }) : null,
      ),
      node.open ? this.inside(node) : null,
    );
  }

  inside(node) {
    if (node.problem !== null) return h("p", { class: "problem" }, node.problem);
    if (node.children === null) return h("p", { class: "quiet tree-empty" }, "…");
    if (node.children.length === 0) return h("p", { class: "quiet tree-empty" }, node.kind === "database" ? "no tables" : "nothing here");
    const more = node.children.length - MOST;
    return h("ul", null, node.children.slice(0, MOST).map((child) => this.node(child)), more > 0 ? h("li", { class: "quiet tree-empty" }, `and ${more} more`) : null);
  }

  column(node) {
    const notes = [node.key ? "key" : null, node.watermark ? "watermark" : null, node.computed].filter((one) => one);
    return h(
      "li",
      { key: keyOf(node), class: "tree-column" },
      button(breakable(node.name), () => this.insert(quoted(node.name)), { class: "plain tree-name", "aria-label": `Insert the column ${node.name}` }),
      h("span", { class: "quiet", title: notes.join(", ") || null }, node.type, notes.length > 0 ? ` · ${notes.join(", ")}` : ""),
    );
  }

  /** Return the name that a statement of the session needs. */
  shortest(node) {
    const path = node.path[0] !== this.current[0] ? node.path : node.path[1] !== this.current[1] ? node.path.slice(1) : node.path.slice(2);
    return path.map(quoted).join(".");
  }
}

function keyOf(node) {
  return JSON.stringify(node.path);
}
