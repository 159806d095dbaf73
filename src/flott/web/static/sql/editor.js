/**
 * The editor: a text area over a layer with the same text in colours, suggestions at the cursor, marks of an error.
 *
 * The text area stays the one thing that is edited, so that undo, selection, touch keyboards and screen readers work as
 * everywhere. Tab leaves it, unless suggestions are open.
 */

import { h, morphChildren } from "../elements.js";
import { tokens, wordBefore } from "./text.js";

const SUGGESTIONS = 10;
const AFTER_TYPING = 180;

export class Editor {
  /** `suggest(text)` returns words for the end of a text; `run(event)` is called for Ctrl+Enter; `changed` on input. */
  constructor({ suggest, run, changed, focused }) {
    Object.assign(this, { suggest, run, changed });
    this.mark = null;
    this.words = [];
    this.chosen = -1;
    this.timer = null;
    this.asked = 0;
    this.layer = h("pre", { class: "editor-layer", "aria-hidden": "true" });
    this.area = h("textarea", {
      class: "editor-area",
      "aria-label": "SQL statements",
      "aria-describedby": "editor-hint",
      "aria-autocomplete": "list",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      rows: 8,
      on: {
        input: () => this.typed(),
        keydown: (event) => this.key(event),
        blur: () => this.closeWords(),
        focus: focused,
        click: () => this.closeWords(),
      },
    });
    this.list = h("ul", { class: "suggestions", id: "suggestions", role: "listbox", "aria-label": "Suggestions", hidden: true });
    this.node = h("div", { class: "editor" }, h("div", { class: "editor-scroll" }, this.layer, this.area), this.list);
    this.draw();
  }

  get text() {
    return this.area.value;
  }

  /** Return { start, end } of the selection; both are the cursor if nothing is selected. */
  get selection() {
    return { start: this.area.selectionStart, end: this.area.selectionEnd };
  }

  set text(text) {
    this.area.value = text;
    this.mark = null;
    this.draw();
    this.changed();
  }

  focus() {
    this.area.focus();
  }

  /** Replace the selection, as typing does, so that it can be undone. */
  insert(text) {
    this.area.focus();
    const { start, end } = this.selection;
    this.area.setRangeText(text, start, end, "end");
    this.typed(false);
  }

  /** Mark a place of the text: { start, end, text }; null takes the mark away. */
  point(mark) {
    this.mark = mark;
    this.draw();
    if (mark !== null) {
      this.area.focus();
      this.area.setSelectionRange(mark.start, mark.start);
    }
  }

  typed(suggests = true) {
    this.mark = null;
    this.draw();
    this.changed();
    this.closeWords();
    const { start, end } = this.selection;
    if (suggests && start === end && wordBefore(this.text, start).length >= 2) this.timer = setTimeout(() => this.openWords(), AFTER_TYPING);
  }

  draw() {
    const { mark } = this;
    const parts = tokens(this.text).map(({ kind, text, start }) => {
      const marked = mark !== null && start < mark.end && start + text.length > mark.start;
      const classes = [`sql-${kind}`, marked ? "sql-wrong" : ""].join(" ").trim();
      return kind === "space" && !marked ? text : h("span", { class: classes }, text);
    });
    if (mark !== null && mark.start >= this.text.length) parts.push(h("span", { class: "sql-wrong" }, " "));
    morphChildren(this.layer, h("pre", null, parts, "\n"));
    if (mark === null) this.area.removeAttribute("aria-invalid");
    else this.area.setAttribute("aria-invalid", "true");
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.closeWords();
      this.run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.openWords();
    } else if (!this.list.hidden) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step !== undefined) {
        event.preventDefault();
        this.choose((this.chosen + step + this.words.length) % this.words.length);
      } else if (event.key === "Escape") {
        event.preventDefault();
        this.closeWords();
      } else if (event.key === "Tab" || (event.key === "Enter" && this.chosen >= 0)) {
        event.preventDefault();
        this.accept(this.words[Math.max(0, this.chosen)]);
      } else if (event.key.startsWith("Arrow")) {
        this.closeWords();
      }
    }
  }

  async openWords() {
    clearTimeout(this.timer);
    const at = this.selection.start;
    const { text } = this;
    this.asked += 1;
    const asked = this.asked;
    let found;
    try {
      found = await this.suggest(text, at);
    } catch {
      return; // a suggestion is no place for an error
    }
    if (asked !== this.asked || at !== this.selection.start || text !== this.text || document.activeElement !== this.area) return;
    this.words = found.slice(0, SUGGESTIONS);
    this.chosen = -1;
    if (this.words.length === 0) return;
    this.showWords();
    this.place(at - wordBefore(text, at).length);
    this.area.setAttribute("aria-controls", "suggestions");
  }

  showWords() {
    const items = this.words.map((word, index) =>
      h(
        "li",
        {
          id: `suggestion-${index}`,
          role: "option",
          "aria-selected": String(index === this.chosen),
          on: {
            mousedown: (event) => {
              event.preventDefault(); // the focus stays in the text
              this.accept(word);
            },
          },
        },
        word,
      ),
    );
    morphChildren(this.list, h("ul", null, items));
    this.list.hidden = false;
  }

  choose(index) {
    this.chosen = index;
    this.showWords();
    this.area.setAttribute("aria-activedescendant", `suggestion-${index}`);
  }

  closeWords() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.list.hidden = true;
    this.area.removeAttribute("aria-controls");
    this.area.removeAttribute("aria-activedescendant");
  }

  accept(word) {
    const at = this.selection.start;
    this.area.setRangeText(word, at - wordBefore(this.text, at).length, at, "end");
    this.typed(false);
  }

  /** Put the suggestions below the character at an offset of the text. */
  place(offset) {
    const walker = document.createTreeWalker(this.layer, NodeFilter.SHOW_TEXT);
    let left = offset;
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      if (left <= node.data.length) {
        const range = document.createRange();
        range.setStart(node, left);
        range.setEnd(node, Math.min(node.data.length, left + 1));
        const at = range.getBoundingClientRect();
        const frame = this.node.getBoundingClientRect();
        const x = Math.min(at.left - frame.left, frame.width - this.list.offsetWidth - 4);
        this.list.style.setProperty("left", `${Math.max(4, x)}px`);
        this.list.style.setProperty("top", `${at.bottom - frame.top + 4}px`);
        return;
      }
      left -= node.data.length;
    }
  }
}
