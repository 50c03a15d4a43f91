// Tools as agents of a profile see them, with their cost, and what is hidden, left out or withheld, and why.

import { el, filterField, matches, replace, setText } from "./dom.js";
import { bytes, count, short } from "./format.js";

/** Servers whose tools are shown at once. */
const OPEN = 4;

function toolRow(tool, most) {
  const isHidden = tool.why_hidden !== null;
  const renamed = tool.configured_name ? el("span", { class: "faint" }, ` (${tool.tool})`) : null;
  const bar = el("meter", { min: 0, max: most, value: tool.tokens, "aria-hidden": "true" });
  return el("li", { class: isHidden ? "tool off" : "tool" },
    el("div", { class: "tool-name" }, el("span", {}, tool.name ?? tool.tool), renamed),
    el("div", { class: "tool-text" }, isHidden ? el("p", { class: "reason" }, tool.why_hidden) : null,
      tool.defects_text ? el("p", { class: "reason" }, tool.defects_text) : null,
      tool.hidden_from_modern ? el("p", { class: "reason" }, "Agents of MCP 2026-07-28 do not see it: it can only be called as a task.") : null,
      el("p", {}, tool.description ?? "")),
    el("div", { class: "tool-cost" }, isHidden ? null : bar, el("span", { class: "number" }, `${short(tool.tokens)} tokens`)));
}

export class ToolsView {
  constructor(model, profile) {
    this.model = model;
    this.profile = profile ?? "default";
    this.filter = "";
    this.withHidden = true;
    this.total = el("p", { class: "faint", role: "status" }, "Loading…");
    this.groups = el("div", { class: "groups" });
    this.choice = el("select", { "aria-label": "Profile", onchange: () => { location.hash = `#tools/${encodeURIComponent(this.choice.value)}`; } });
    this.input = filterField("", (text) => { this.filter = text; this.show(); }, "Filter: name, description, reason");
    const hidden = el("input", { type: "checkbox", checked: true, onchange: (event) => { this.withHidden = event.target.checked; this.show(); } });
    this.showHidden = () => {
      [this.filter, this.withHidden, this.input.value, hidden.checked] = ["hidden", true, "hidden", true];
      this.show();
    };
    this.node = el("section", { "aria-label": "Tools" },
      el("div", { class: "bar" }, el("h1", {}, "Tools"), el("label", { class: "check" }, "Profile ", this.choice), this.input,
        el("label", { class: "check" }, hidden, "Also hidden ones")), this.total, this.groups);
  }

  /** The tools are requested again when the status shows that they have changed. */
  update() {
    const profiles = this.model.profiles.map(({ name }) => name);
    const signature = JSON.stringify([profiles, this.model.profiles.map(({ tools }) => tools), this.model.list().map(([name, { report }]) =>
      [name, report.state, report.tools_exposed, report.tools_denied, report.tools_disabled, report.tokens, report.changes?.withheld, report.items_malformed])]);
    if (signature === this.signature) return;
    this.signature = signature;
    replace(this.choice, profiles.map((name) => el("option", { value: name, selected: name === this.profile }, name)));
    this.read();
  }

  async read() {
    try {
      const reply = await fetch(`api/tools?profile=${encodeURIComponent(this.profile)}`);
      this.data = await reply.json();
      this.show();
    } catch {
      this.signature = null;
    }
  }

  show() {
    const { data } = this;
    if (!data) return;
    if (data.error) {
      setText(this.total, data.error);
      replace(this.groups);
      return;
    }
    const seen = data.tools.filter((tool) => tool.why_hidden === null);
    const sum = (tools) => tools.reduce((total, { tokens }) => total + tokens, 0);
    const hidden = data.tools.length - seen.length;
    replace(this.total, `Agents see ${count(seen.length, "tool")}, about ${short(sum(seen))} tokens, and ${bytes(data.summary.instructions_bytes)} of instructions. `,
      hidden ? el("button", { type: "button", class: "link", onclick: this.showHidden }, `${count(hidden, "tool")} ${hidden === 1 ? "is" : "are"} hidden.`) : "None is hidden.");
    const most = Math.max(1, ...data.tools.map(({ tokens }) => tokens));
    const groups = data.summary.servers.map((server) => {
      const own = data.tools.filter((tool) => tool.server === server.name);
      const shown = own.filter((tool) => (this.withHidden || tool.why_hidden === null) &&
        matches(this.filter, tool.name, tool.tool, tool.server, tool.description, tool.why_hidden,
          tool.why_hidden === null ? null : "hidden", tool.defects_text));
      return { server, own, shown };
    }).filter(({ shown }) => shown.length || !this.filter);
    const isOpen = groups.length <= OPEN || this.filter !== "";
    if (!groups.length && this.filter) return replace(this.groups, el("p", { class: "empty" }, "No tool matches."));
    replace(this.groups, groups.map((group) => this.group(group, most, isOpen || this.opened?.has(group.server.name))));
  }

  group({ server, own, shown }, most, isOpen) {
    const visible = own.filter((tool) => tool.why_hidden === null);
    const hidden = own.length - visible.length;
    const list = el("ul", { class: "tools" });
    const fill = () => { if (!list.firstChild) replace(list, shown.map((tool) => toolRow(tool, most))); };
    const node = el("details", { open: isOpen },
      el("summary", {}, el("span", { class: "name" }, server.name), " ",
        el("span", { class: "faint" }, [count(visible.length, "tool"), hidden ? `${hidden} hidden` : null,
          `about ${short(visible.reduce((sum, { tokens }) => sum + tokens, 0))} tokens`, server.missing ? `has not listed its tools (${server.state})` : null,
          server.truncated ? "the list was cut" : null].filter(Boolean).join(" · "))), list);
    if (isOpen) fill();
    node.addEventListener("toggle", () => {
      this.opened ??= new Set();
      this.opened[node.open ? "add" : "delete"](server.name);
      if (node.open) fill();
    });
    return node;
  }
}
