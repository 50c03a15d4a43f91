// Calls as they end, the newest first.

import { Rows, el, filterField, matches, replace, setText, table } from "./dom.js";
import { bytes, clock, count, duration, latency } from "./format.js";

const SHOWN = 150;
export const CALL_COLUMNS = [["Time"], ["Agent"], ["Server"], ["Tool"], ["Outcome"], ["Took", "number"], ["Request", "number wide"], ["Answer", "number wide"]];

/** What an outcome means. The text of an error is not recorded. */
const OUTCOMES = {
  tool_error: "the tool reports an error", error: "an error of the server", died: "the server ended", timed_out: "the server took too long",
  overloaded: "a limit was reached", unavailable: "the server was down", shutting_down: "it was being stopped",
  too_large: "the answer was too large", malformed: "the answer was invalid", unknown_tool: "the agent has no such tool",
};
const RUNNING_COLUMNS = [["Since", "number"], ["Agent"], ["Server"], ["Tool"]];

/** The row of a call, which never changes. */
export function callRow(call) {
  const isGood = call.outcome === "ok";
  const outcome = el("span", { class: isGood ? "outcome" : call.outcome === "cancelled" ? "outcome faint" : "outcome wrong" },
    call.outcome.replaceAll("_", " "), call.code !== undefined ? ` ${call.code}` : "");
  const server = call.server ? el("a", { class: "row", href: `#server/${encodeURIComponent(call.server)}` }, call.server) : "–";
  const title = call.arguments ? { title: call.arguments.slice(0, 300) } : {};
  return {
    node: el("tr", {}, el("td", { class: "time" }, clock(call.time)), el("td", {}, `${call.session} `, el("span", { class: "faint wide" }, call.client ?? "")),
      el("td", {}, server), el("td", title, call.tool),
      el("td", {}, outcome, OUTCOMES[call.outcome] ? el("div", { class: "faint" }, OUTCOMES[call.outcome]) : null), el("td", { class: "number" }, latency(call.duration_ms)),
      el("td", { class: "number wide" }, bytes(call.request_bytes)), el("td", { class: "number wide" }, bytes(call.reply_bytes))),
  };
}

export class CallsView {
  constructor(model, filter) {
    this.model = model;
    this.filter = filter ?? "";
    this.onlyErrors = false;
    this.isPaused = false;
    this.count = el("span", {});
    const body = el("tbody", {});
    this.rows = new Rows(body, callRow);
    this.input = filterField(this.filter, (text) => { this.filter = text; this.show(); this.showRunning(); }, "Filter: agent, server, tool, outcome");
    this.pause = el("button", { type: "button", "aria-pressed": "false", onclick: () => this.togglePause() }, "Pause");
    const errors = el("input", { type: "checkbox", onchange: (event) => { this.onlyErrors = event.target.checked; this.show(); } });
    this.empty = el("p", { class: "empty" });
    this.table = table("Calls", CALL_COLUMNS, body);
    this.running = el("tbody", {});
    this.now = el("section", { "aria-label": "Calls in flight", hidden: true }, el("h2", {}, "In flight"),
      table("Calls in flight", RUNNING_COLUMNS, this.running), el("h2", {}, "Ended"));
    this.node = el("section", { "aria-label": "Calls" },
      el("div", { class: "bar" }, el("h1", {}, "Calls"), this.input, el("label", { class: "check" }, errors, "Only errors"), this.pause),
      this.now, el("p", { class: "faint" }, this.count, " ", el("code", {}, "mcpd calls -f"), " prints them."), this.table, this.empty);
  }

  togglePause() {
    this.isPaused = !this.isPaused;
    this.pause.setAttribute("aria-pressed", String(this.isPaused));
    setText(this.pause, this.isPaused ? "Continue" : "Pause");
    this.kept = this.isPaused ? [...this.model.calls] : null;
    this.show();
  }

  /** Calls without an answer, whose time goes on. */
  showRunning() {
    const { running, received } = this.model;
    const found = running.filter((call) => matches(this.filter, `#${call.session}`, call.client, call.server, call.tool));
    this.now.hidden = found.length === 0;
    replace(this.running, found.map((call) => el("tr", {},
      el("td", { class: "number" }, duration(this.model.elapsed(call.running_ms, received.get("running")))),
      el("td", {}, `${call.session} `, el("span", { class: "faint wide" }, call.client ?? "")),
      el("td", {}, call.server ? el("a", { href: `#server/${encodeURIComponent(call.server)}` }, call.server) : "waits for a server"),
      el("td", {}, call.tool))));
  }

  update() {
    this.showRunning();
    if (this.isPaused || this.shownCall === this.model.nextCall) return;
    this.shownCall = this.model.nextCall;
    this.show();
  }

  show() {
    const all = this.kept ?? this.model.calls;
    const found = all.filter((call) => (!this.onlyErrors || !["ok", "cancelled"].includes(call.outcome)) &&
      matches(this.filter, `#${call.session}`, call.client, call.profile, call.server, call.tool, call.outcome, call.outcome.replaceAll("_", " ")));
    const shown = found.slice(-SHOWN).reverse();
    this.rows.show(shown, (call) => call.key);
    this.table.hidden = shown.length === 0;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, all.length ? "No call matches." : "No call has ended yet. This view shows each call when it ends.");
    const skipped = this.model.skipped ? `; ${count(this.model.skipped, "call")} ended too fast to be shown` : "";
    setText(this.count, all.length ? `The newest ${shown.length} of ${count(found.length, "call")}${skipped}.` : "");
  }
}
