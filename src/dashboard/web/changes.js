// Definitions that are not approved, and how they differ from the approved ones.

import { command, el, replace, setText } from "./dom.js";
import { count, dayAndTime } from "./format.js";

const WITHHELD = "Agents do not see it until you approve it.";
const SIMPLE = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
/** In texts of servers, these signs are escaped. */
const MARKS = /(\[-[\s\S]*?-\]|\{\+[\s\S]*?\+\})/;

/** The difference with marks as elements. Its first line repeats the heading. */
function marked(text) {
  const body = text.slice(text.indexOf("\n") + 1).trimEnd().replace(/^ {2}/gm, "");
  return body.split(MARKS).map((part) => {
    if (part.startsWith("[-") && part.endsWith("-]")) return el("del", {}, part.slice(2, -2));
    if (part.startsWith("{+") && part.endsWith("+}")) return el("ins", {}, part.slice(2, -2));
    return part;
  });
}

function article(change) {
  const { server, kind, name, digest, since, withheld, difference, is_cut: isCut } = change;
  const item = kind === "tool" && SIMPLE.test(name) ? name : digest;
  return el("article", { class: "change", "aria-label": `${server}: ${kind} ${name}` },
    el("h2", {}, el("a", { href: `#server/${encodeURIComponent(server)}` }, server), ` · ${kind} ${name}`),
    el("p", { class: "faint" }, `${change.new ? "New" : "Changed"} since ${dayAndTime(since)}. `, withheld ? el("strong", {}, WITHHELD) : "Agents see it."),
    el("pre", { class: "difference", tabindex: "0", "aria-label": "Difference" }, marked(difference)),
    isCut ? el("p", {}, "It is longer. ", command(`mcpd diff ${server}`), " shows all of it.") : null,
    el("p", {}, command(`mcpd approve ${server} ${item}`), " ",
      kind === "tool" && SIMPLE.test(name) ? command(`mcpd reject ${server} ${name}`) : null));
}

export class ChangesView {
  constructor(model) {
    this.model = model;
    this.total = el("p", { class: "faint", role: "status" }, "Loading…");
    this.list = el("div", {});
    this.node = el("section", { "aria-label": "Changes" }, el("div", { class: "bar" }, el("h1", {}, "Changes")), this.total, this.list);
  }

  /** Requested again when the status shows other numbers. */
  update() {
    const signature = JSON.stringify(this.model.list().map(([name, { report }]) => [name, report.changes]));
    if (signature === this.signature) return;
    this.signature = signature;
    this.read();
  }

  async read() {
    try {
      const reply = await fetch("api/changes");
      this.show(await reply.json());
    } catch {
      this.signature = null;
    }
  }

  show({ changes, servers, error }) {
    if (error) {
      setText(this.total, error);
      return;
    }
    const compared = servers.filter(({ rule }) => rule !== "follow").length;
    setText(this.total, changes.length ? `${count(changes.length, "definition")} of servers ${changes.length === 1 ? "is" : "are"} not approved.`
      : `No definition differs from what you have approved. ${count(compared, "server")} ${compared === 1 ? "is" : "are"} compared, ${count(servers.length - compared, "other")} ` +
        "not (changes = \"follow\").");
    const problems = servers.filter(({ file_problem: problem }) => problem);
    replace(this.list, problems.map(({ name, file_problem: problem }) => el("p", { class: "note" }, `${name}: ${problem}`)),
      servers.filter(({ left_out: left }) => left).map(({ name, left_out: left }) => el("p", { class: "note" }, `${name}: ${count(left, "more definition")} not approved`)),
      changes.map(article));
  }
}
