// Makes and changes elements. Text of servers and agents becomes a text node, never HTML, and invisible characters become visible.

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const SVG = "http://www.w3.org/2000/svg";

/** The text with escapes for characters that cannot be seen or that change the direction. */
export function visible(text) {
  return String(text).replace(INVISIBLE, (char) =>
    char === "\n" || char === "\t" ? char : `\\u{${char.codePointAt(0).toString(16)}}`);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  append(node, children);
  return node;
}

/** Appends nodes, and other values as text. */
export function append(node, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

/** An element, with attributes; `onclick` and the like are listeners. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Sets the text, if it is another one. */
export function setText(node, text) {
  const shown = visible(text ?? "");
  if (node.textContent !== shown) node.textContent = shown;
}

/** Replaces the children. */
export function replace(node, ...children) {
  node.textContent = "";
  append(node, children);
}

/** Sets an attribute, or removes it for `null`, if that is a change. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/**
 * Children of a node by key. `create(item)` returns an object with `node`, and `update(item)` if a row changes. Rows that stay keep their node,
 * and so the focus and the selection.
 */
export class Rows {
  constructor(parent, create) {
    this.parent = parent;
    this.create = create;
    this.rows = new Map();
  }

  show(items, keyOf) {
    const keys = new Set(items.map(keyOf));
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.node.remove();
      this.rows.delete(key);
    }
    let next = this.parent.firstChild;
    for (const item of items) {
      const key = keyOf(item);
      let row = this.rows.get(key);
      if (!row) {
        row = this.create(item);
        this.rows.set(key, row);
      }
      row.update?.(item);
      if (row.node === next) next = next.nextSibling;
      else this.parent.insertBefore(row.node, next);
    }
  }
}

/** A command that can be copied. */
export function command(text) {
  const copy = el("button", { type: "button", class: "copy", "aria-label": `Copy ${text}` }, "Copy");
  copy.addEventListener("click", async (event) => {
    event.stopPropagation();
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Select it";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  return el("span", { class: "command" }, el("code", {}, text), copy);
}

/** A labelled field that filters. */
export function filterField(value, change, placeholder) {
  const input = el("input", {
    type: "search", class: "filter", "aria-label": "Filter", placeholder, autocomplete: "off", spellcheck: "false", value,
  });
  input.addEventListener("input", () => change(input.value));
  return input;
}

/** Whether all words of the filter occur. */
export function matches(filter, ...texts) {
  const text = texts.filter((one) => one !== null && one !== undefined).join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** A table in a box that scrolls by itself. Columns: `[heading, class]`. */
export function table(label, columns, body) {
  const heads = columns.map(([heading, kind]) => el("th", { scope: "col", class: kind }, heading));
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
}
