// Connected agents, and the profiles that they use.

import { el, filterField, matches, replace, setText, table } from "./dom.js";
import { count, duration } from "./format.js";

const AGENT_COLUMNS = [["Agent", "number"], ["Client"], ["Process", "number wide"], ["Profile"], ["Sees", "wide"], ["By", "wide"], ["MCP", "wide"], ["For", "number"], ["Calls", "number"]];
const PROFILE_COLUMNS = [["Profile"], ["Servers"], ["Tools", "number"], ["Agents", "number"], ["Quotas"], ["Where", "wide"]];
/** Servers that a profile names. */
const NAMED = 6;

export class AgentsView {
  constructor(model) {
    this.model = model;
    this.filter = "";
    this.agents = el("tbody", {});
    this.profiles = el("tbody", {});
    this.empty = el("p", { class: "empty" });
    this.table = table("Agents", AGENT_COLUMNS, this.agents);
    this.input = filterField("", (text) => { this.filter = text; this.shown = null; this.update(); }, "Filter: client, profile, server");
    this.node = el("section", { "aria-label": "Agents and profiles" },
      el("div", { class: "bar" }, el("h1", {}, "Agents"), this.input), this.table, this.empty,
      el("h2", {}, "Profiles"), table("Profiles", PROFILE_COLUMNS, this.profiles));
  }

  update() {
    const { model } = this;
    const received = model.received.get("agents") ?? Date.now();
    const minute = Math.floor(Date.now() / 10_000);
    const shown = JSON.stringify([model.agents, model.profiles, minute]);
    if (shown === this.shown) return;
    this.shown = shown;
    const found = model.agents.filter((agent) => matches(this.filter, agent.client, agent.profile, agent.server, agent.pid, agent.listener));
    replace(this.agents, found.map((agent) => el("tr", {},
      el("td", { class: "number" }, el("a", { class: "row", href: `#calls/${encodeURIComponent(`#${agent.session}`)}`, "aria-label": `Calls of agent ${agent.session}` }, agent.session)),
      el("td", {}, agent.client ?? "unnamed"), el("td", { class: "number wide" }, agent.pid ?? "–"), el("td", {}, agent.profile),
      el("td", { class: "wide" }, agent.server ? `only ${agent.server}` : "whole profile"), el("td", { class: "wide" }, agent.listener),
      el("td", { class: "wide" }, agent.protocol ?? "–"),
      el("td", { class: "number" }, duration(model.elapsed(agent.connected_ms, received))), el("td", { class: "number" }, agent.calls))));
    this.table.hidden = found.length === 0;
    this.empty.hidden = found.length > 0;
    setText(this.empty, model.agents.length ? "No agent matches." : "No agent is connected. mcpd link connects your clients.");
    replace(this.profiles, model.profiles.map((profile) => this.profile(profile)));
  }

  profile({ name, servers, tools, agents, quotas = [], socket, http, directories = [], cut }) {
    const all = this.model.order.length;
    const named = servers.length === all && all > 0 ? `all ${all}`
      : servers.slice(0, NAMED).join(", ") + (servers.length > NAMED ? ` and ${servers.length - NAMED} more` : "");
    const used = quotas.map(({ key, uid, limit, used: now, refused }) =>
      el("div", {}, `${key}${uid !== undefined ? ` of user ${uid}` : ""}: ${now !== undefined ? `${now} of ` : ""}${limit}${refused ? `, ${refused} refused` : ""}`));
    return el("tr", {}, el("th", { scope: "row" }, el("a", { href: `#tools/${encodeURIComponent(name)}` }, name)),
      el("td", { class: "wraps" }, named || "none", cut?.count ? el("div", { class: "faint" }, `${count(cut.count, "item")} cut`) : null),
      el("td", { class: "number" }, tools), el("td", { class: "number" }, agents), el("td", {}, used.length ? used : "–"),
      el("td", { class: "wraps wide" }, el("div", {}, el("code", {}, socket)), http ? el("div", {}, el("code", {}, `http://${http}/mcp`)) : null,
        directories.map((directory) => el("div", {}, "in ", el("code", {}, directory)))));
  }
}
