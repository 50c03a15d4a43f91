// All servers: state, what is wrong and what to do, load, latency, memory and processor time.

import { Rows, command, el, filterField, matches, replace, setAttribute, setText } from "./dom.js";
import { bytes, count, duration, latency, percent, short, stateWord, tone } from "./format.js";
import { CALLS, CPU, ERRORS, MEMORY, P95 } from "./model.js";
import { spark } from "./plot.js";

/** Heading, the value to sort by (greatest first), and its class. */
const COLUMNS = [
  { key: "state", heading: "Server" },
  { key: "load", heading: "Calls / min", kind: "number plotted", value: (model, name) => model.rate(name) },
  { key: "latency", heading: "P95, last minute", kind: "number plotted", value: (model, name) => model.greatest(name, P95) ?? -1 },
  { key: "memory", heading: "Memory", kind: "number plotted", value: (model, name) => model.latest(name, MEMORY) ?? -1 },
  { key: "cpu", heading: "CPU", kind: "number", value: (model, name) => model.latest(name, CPU) ?? -1 },
  { key: "errors", heading: "Errors / h", kind: "number", value: (model, name) => model.sum(name, ERRORS) },
  { key: "tools", heading: "Tools", kind: "number", value: (model, name, report) => report.tools_exposed },
  { key: "sandbox", heading: "Sandbox", kind: "word" },
];

/** What is worth a look first: down, moving, with notes, and the rest in the order of the configuration. */
function urgency(model, server) {
  if (model.isDown(server)) return 0;
  return tone(server.report.state) === "moving" ? 1 : 2;
}

export function sandboxWord(report) {
  const { sandbox } = report;
  if (!sandbox) return report.remote && !report.limits ? "remote" : "–";
  return sandbox.not_enforced?.length ? `${sandbox.level}, partly` : sandbox.level;
}

function cell(heading, kind, ...children) {
  return el("td", { class: kind, "data-label": heading, role: "cell" }, children);
}

function row(model, [name]) {
  const state = el("span", { class: "state" });
  const next = el("span", { class: "faint" });
  const why = el("div", { class: "why" });
  const values = {};
  const number = (key) => (values[key] = el("span", { class: "value" }));
  const plots = { load: spark("bars"), latency: spark("line"), memory: spark("line") };
  const cells = COLUMNS.slice(1).map(({ key, heading, kind }) =>
    cell(heading, kind, el("span", { class: "plot-and-value" }, plots[key]?.node, number(key))));
  const link = el("a", { class: "name", href: `#server/${encodeURIComponent(name)}` }, name);
  const node = el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader" }, el("div", { class: "who" }, link, state, next), why), cells);
  let [shownWhy, shownVersion] = [null, null];
  return {
    node,
    update([, server]) {
      const version = model.version(name);
      if (version === shownVersion) return;
      shownVersion = version;
      const { report, advice } = server;
      const until = model.untilStart(server);
      const calls = report.in_flight > 0 ? `${count(report.in_flight, "call")} now` : "";
      setText(next, until === null ? calls : `next start in ${duration(Math.ceil(until / 1000) * 1000)}`);
      setText(state, stateWord(report.state));
      setAttribute(state, "class", `state ${tone(report.state)}`);
      setAttribute(node, "class", model.isDown(server) ? "down" : report.disabled ? "off" : null);
      const failures = advice?.failures ?? [];
      const said = JSON.stringify([failures, advice?.command, failures.length ? null : advice?.notes]);
      if (said !== shownWhy) {
        shownWhy = said;
        const more = failures.length > 2 ? el("p", { class: "faint" }, `… ${failures.length - 2} more`) : null;
        const notes = failures.length ? [] : (advice?.notes ?? []).slice(0, 1);
        replace(why, failures.slice(0, 2).map((failure) => el("p", {}, failure)), more,
          advice?.command ? el("p", {}, "→ ", command(advice.command)) : null,
          notes.map((note) => el("p", { class: "faint one-line", title: note }, note)));
      }
      plots.load.update(model.series(name, CALLS), model.series(name, ERRORS));
      plots.latency.update(model.series(name, P95));
      plots.memory.update(model.series(name, MEMORY));
      setText(values.load, short(model.rate(name)));
      setText(values.latency, latency(model.greatest(name, P95)));
      setText(values.memory, bytes(model.latest(name, MEMORY)));
      setText(values.cpu, percent(model.latest(name, CPU)));
      const errors = model.sum(name, ERRORS);
      setText(values.errors, short(errors));
      setAttribute(values.errors, "class", errors > 0 ? "value some" : "value");
      setText(values.tools, String(report.tools_exposed));
      setText(values.sandbox, sandboxWord(report));
    },
  };
}

export class ServersView {
  constructor(model) {
    this.model = model;
    this.filter = "";
    this.sort = "state";
    this.heading = el("h1", {}, "Servers");
    this.notes = el("div", { class: "notes" });
    this.empty = el("p", { class: "empty", hidden: true });
    this.buttons = new Map();
    const heads = COLUMNS.map(({ key, heading, kind, value }) => {
      const sorts = value || key === "state";
      const button = sorts ? el("button", { type: "button", class: "sort", onclick: () => this.sortBy(key) }, heading) : heading;
      const head = el("th", { scope: "col", class: kind, role: "columnheader" }, button);
      this.buttons.set(key, head);
      return head;
    });
    const body = el("tbody", { role: "rowgroup" });
    this.rows = new Rows(body, (item) => row(model, item));
    this.input = filterField("", (text) => { this.filter = text; this.update(); }, "Filter: name, state, reason");
    this.node = el("section", { "aria-label": "Servers" },
      el("div", { class: "bar" }, this.heading, this.input), this.notes,
      el("table", { class: "servers", role: "table", "aria-label": "Servers" },
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)), body), this.empty);
  }

  sortBy(key) {
    this.sort = key;
    this.update();
  }

  update() {
    const { model } = this;
    const all = model.list();
    const value = COLUMNS.find(({ key }) => key === this.sort)?.value;
    const shown = all.filter(([name, { report, advice }]) =>
      matches(this.filter, name, report.state, stateWord(report.state), ...(advice?.failures ?? []), ...(advice?.notes ?? [])));
    shown.sort(value
      ? ([a, { report: ofA }], [b, { report: ofB }]) => value(model, b, ofB) - value(model, a, ofA)
      : ([, a], [, b]) => urgency(model, a) - urgency(model, b));
    for (const [key, head] of this.buttons) setAttribute(head, "aria-sort", key === this.sort ? (value ? "descending" : "other") : null);
    this.rows.show(shown, ([name]) => name);
    const notes = JSON.stringify([model.configuration, model.notes]);
    if (notes !== this.shownNotes) {
      this.shownNotes = notes;
      replace(this.notes, model.configuration ? el("pre", { class: "note" }, model.configuration.trimEnd()) : null,
        model.notes.map((note) => el("p", { class: "note" }, note)));
    }
    this.empty.hidden = shown.length > 0;
    if (all.length === 0) replace(this.empty, "No server is configured. ", command("mcpd add NAME -- COMMAND"), " adds one, ", command("mcpd import"), " takes over those of your clients.");
    else setText(this.empty, `None of ${count(all.length, "server")} matches.`);
  }
}
