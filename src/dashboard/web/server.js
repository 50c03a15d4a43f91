// One server: why it is down, plots, facts, instances, sandbox, last lines of stderr and last calls.

import { Rows, command, el, replace, setAttribute, setText, table } from "./dom.js";
import { bytes, clock, count, dayAndTime, duration, latency, percent, short, stateWord, tone } from "./format.js";
import { CALLS, CPU, ERRORS, MEDIAN, MEMORY, P95 } from "./model.js";
import { callRow, CALL_COLUMNS } from "./calls.js";
import { chart, roundUp, roundUpBytes } from "./plot.js";

const LINES_EVERY = 3000;
const LAST_CALLS = 20;
/** Agents that are named. */
const CALLERS = 6;

/** Facts with names, those without a value left out. */
function facts(model, name, server) {
  const { report, received } = server;
  const callers = new Set(model.calls.filter((call) => call.server === name).map((call) => `${call.client ?? "unnamed"} (agent ${call.session})`));
  const profiles = model.profiles.filter(({ servers }) => servers.includes(name)).map((profile) => profile.name);
  const sandbox = report.sandbox;
  const limits = report.limits;
  const until = model.untilStart(server);
  const enforced = limits && [
    limits.memory_max && `at most ${bytes(limits.memory_max)} of memory for each instance`, limits.tasks_max && `${limits.tasks_max} processes and threads`,
    limits.state,
  ].filter(Boolean).join(", ");
  return [
    ["Up", report.uptime_ms !== undefined ? duration(model.elapsed(report.uptime_ms, received)) : null],
    ["Next start", until === null ? null : `in ${duration(Math.ceil(until / 1000) * 1000)}`],
    ["Process", report.pid && `${report.pid}${report.guard_pid ? `, below guard ${report.guard_pid}` : ""}`],
    ["Processes", report.usage?.processes],
    ["Address", report.remote && [report.remote.origin, report.remote.transport].filter(Boolean).join(", ")],
    ["Software", report.software],
    ["MCP", report.protocol && [report.protocol, ...(report.eras ?? [])].join(", ")],
    ["Tools", `${report.tools_exposed}, about ${short(report.tokens)} tokens${report.tools_denied ? `; ${report.tools_denied} denied` : ""}`],
    ["Prompts", report.prompts_exposed || report.prompts_denied ? `${report.prompts_exposed}${report.prompts_denied ? `; ${report.prompts_denied} denied` : ""}` : null],
    ["Resources", report.resources_exposed || report.resources_denied ? `${report.resources_exposed}${report.resources_denied ? `; ${report.resources_denied} denied` : ""}` : null],
    ["Calls", `${report.calls}; ${report.errors} ended in an error response; ${report.in_flight} now`],
    ["Called lately by", [...callers].slice(-CALLERS).join(", ")],
    ["In profiles", profiles.join(", ")],
    ["Restarts", `${report.restarts}; ${report.restarts_last_hour} in the last hour after failures`],
    ["Sandbox", sandbox && `level ${sandbox.level}`],
    ["Taken away", sandbox?.enforced.length ? sandbox.enforced.map((one) => one.replaceAll("_", " ")).join(", ") : null],
    ["Not enforced", sandbox?.not_enforced?.length ? sandbox.not_enforced.map((one) => one.replaceAll("_", " ")).join(", ") : null],
    ["Limits", enforced || null],
    ["Approval", report.changes && `${report.changes.rule}: ${report.changes.changed} changed, ${report.changes.new} new, ${report.changes.withheld} withheld`],
    ["Mended results", report.results_mended || null],
    ["Skipped lines", report.skipped_lines || null],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
}

function instanceRow(instance) {
  return el("tr", {}, el("th", { scope: "row" }, instance.purpose),
    el("td", {}, el("span", { class: `state ${tone(instance.state)}` }, stateWord(instance.state))),
    el("td", { class: "number" }, instance.pid ?? "–"), el("td", { class: "number" }, instance.calls),
    el("td", { class: "number" }, instance.in_flight), el("td", { class: "number" }, instance.errors),
    el("td", { class: "number" }, bytes(instance.usage?.memory_bytes)), el("td", {}, instance.reason ?? ""));
}

export class ServerView {
  constructor(model, name) {
    this.model = model;
    this.name = name;
    this.state = el("span", { class: "state" });
    this.why = el("div", { class: "why large" });
    this.facts = el("dl", { class: "facts" });
    this.details = el("div", {});
    this.lines = el("pre", { class: "lines", tabindex: "0", "aria-label": "Last lines of stderr" }, "…");
    this.charts = [
      [chart("Calls / 30 s", [{ label: "calls", kind: "bars", tone: "main" }, { label: "errors", kind: "bars", tone: "error" }], (value) => String(value ?? 0)), [CALLS, ERRORS]],
      [chart("Latency", [{ label: "p95", kind: "line", tone: "main" }, { label: "p50", kind: "line", tone: "second" }], latency), [P95, MEDIAN]],
      [chart("Memory", [{ label: "memory", kind: "line", tone: "main" }], bytes, roundUpBytes), [MEMORY]],
      [chart("CPU, of one core", [{ label: "CPU", kind: "line", tone: "main" }], percent, (value) => Math.max(5, roundUp(value))), [CPU]],
    ];
    const calls = el("tbody", {});
    this.calls = new Rows(calls, callRow);
    this.noCalls = el("p", { class: "empty" }, "No calls are recorded.");
    this.callTable = table(`Last calls of ${name}`, CALL_COLUMNS, calls);
    this.node = el("section", { "aria-label": `Server ${name}` },
      el("p", { class: "back" }, el("a", { href: "#servers" }, "← Servers")),
      el("div", { class: "bar" }, el("h1", {}, name), this.state), this.why,
      el("div", { class: "charts" }, this.charts.map(([one]) => one.node)),
      el("div", { class: "columns" },
        el("div", {}, el("h2", {}, "Facts"), this.facts, this.details),
        el("div", {}, el("h2", {}, "Last lines of stderr"), this.lines,
          el("p", { class: "faint" }, command(`mcpd logs -f ${name}`), " ", command(`mcpd restart ${name}`)))),
      el("h2", {}, "Last calls"), this.noCalls, this.callTable);
    this.readLines();
    this.timer = setInterval(() => { if (!document.hidden) this.readLines(); }, LINES_EVERY);
  }

  close() {
    clearInterval(this.timer);
  }

  async readLines() {
    try {
      const reply = await fetch(`api/lines?server=${encodeURIComponent(this.name)}`);
      const { lines, error } = await reply.json();
      const text = error ?? lines.map(({ time, text: line }) => `${clock(time)}  ${line}`).join("\n");
      const isAtEnd = this.lines.scrollTop + this.lines.clientHeight >= this.lines.scrollHeight - 4;
      setText(this.lines, text || "It has written nothing.");
      if (isAtEnd) this.lines.scrollTop = this.lines.scrollHeight;
    } catch {
      // The next attempt may succeed; the top of the page shows the outage.
    }
  }

  update() {
    const { model, name } = this;
    const server = model.servers.get(name);
    if (!server) {
      replace(this.why, el("p", {}, "It is no longer configured."));
      return;
    }
    const { report, advice } = server;
    setText(this.state, stateWord(report.state));
    setAttribute(this.state, "class", `state ${tone(report.state)}`);
    const said = JSON.stringify(advice ?? null);
    if (said !== this.said) {
      this.said = said;
      replace(this.why, (advice?.failures ?? []).map((failure) => el("p", { class: "failure" }, failure)),
        advice?.command ? el("p", {}, "→ ", command(advice.command)) : null,
        (advice?.notes ?? []).map((note) => el("p", { class: "note" }, note)));
    }
    for (const [one, members] of this.charts) one.update(members.map((member) => model.series(name, member)), model.step);
    const all = facts(model, name, server);
    const shown = JSON.stringify(all);
    if (shown !== this.shownFacts) {
      this.shownFacts = shown;
      replace(this.facts, all.map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd", {}, String(value)))));
    }
    this.updateDetails(report);
    const calls = model.calls.filter((call) => call.server === name).slice(-LAST_CALLS).reverse();
    this.calls.show(calls, (call) => call.key);
    this.noCalls.hidden = calls.length > 0;
    this.callTable.hidden = calls.length === 0;
  }

  updateDetails(report) {
    const { malformed = [], items_malformed: mended = 0, instances = [], max_instances: most, changes } = report;
    const shown = JSON.stringify([malformed, instances, most, changes]);
    if (shown === this.shownDetails) return;
    this.shownDetails = shown;
    const columns = [["Instance"], ["State"], ["Process", "number"], ["Calls", "number"], ["Now", "number"], ["Errors", "number"], ["Memory", "number"], ["Reason"]];
    replace(this.details,
      instances.length ? [el("h2", {}, `Instances${most ? ` (at most ${most})` : ""}`), table("Instances", columns, el("tbody", {}, instances.map(instanceRow)))] : null,
      changes?.since ? el("p", {}, `Definitions differ since ${dayAndTime(changes.since)}: `, el("a", { href: "#changes" }, "differences"), ".") : null,
      malformed.length ? [el("h2", {}, `Mended or left out (${mended})`), el("ul", {}, malformed.map(({ kind, item, defects }) =>
        el("li", {}, `${kind} ${item ?? ""}: ${[...new Set(defects.map(({ action }) => action.replaceAll("_", " ")))].join(", ")}; `, count(defects.length, "defect")))),
      el("p", {}, command(`mcpd doctor ${this.name}`))] : null);
  }
}
