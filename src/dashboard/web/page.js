// The page: receives events, shows one view, and handles keys.

import { el, replace, setAttribute, setText } from "./dom.js";
import { count, duration, stateWord, tone } from "./format.js";
import { Model } from "./model.js";
import { ServersView } from "./servers.js";
import { ServerView } from "./server.js";
import { AgentsView } from "./agents.js";
import { CallsView } from "./calls.js";
import { ToolsView } from "./tools.js";
import { ChangesView } from "./changes.js";

const model = new Model();
const by = (id) => document.getElementById(id);
const TABS = [["servers", "Servers"], ["agents", "Agents"], ["calls", "Calls"], ["tools", "Tools"], ["changes", "Changes"]];
const VIEWS = {
  servers: () => new ServersView(model),
  server: (name) => new ServerView(model, name),
  agents: () => new AgentsView(model),
  calls: (filter) => new CallsView(model, filter),
  tools: (profile) => new ToolsView(model, profile),
  changes: () => new ChangesView(model),
};

let view = null;
/** Between two drawings. */
const PAUSE = 400;
let [isDrawn, drawnAt] = [true, 0];

// --- The theme

const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

function readTheme() {
  try {
    const theme = localStorage.getItem("theme");
    return theme in THEMES ? theme : "auto";
  } catch {
    return "auto";
  }
}

function setTheme(theme) {
  setAttribute(document.documentElement, "data-theme", theme === "auto" ? null : theme);
  setText(by("theme"), THEMES[theme]);
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // It lasts until the page is closed.
  }
}

setTheme(readTheme());
by("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(readTheme()) + 1) % names.length]);
});

// --- Views

const tabs = new Map(TABS.map(([name, label], index) => {
  const badge = el("span", { class: "badge" });
  const link = el("a", { href: `#${name}`, title: `Key ${index + 1}` }, label, " ", badge);
  by("tabs").append(el("li", {}, link));
  return [name, { link, badge }];
}));

function open() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const known = Object.hasOwn(VIEWS, name) ? name : "servers";
  let argument;
  try {
    argument = rest.length ? decodeURIComponent(rest.join("/")) : undefined;
  } catch {
    argument = undefined;
  }
  view?.close?.();
  view = VIEWS[known](argument);
  view.update();
  replace(by("main"), view.node);
  const tab = known === "server" ? "servers" : known;
  for (const [one, { link }] of tabs) setAttribute(link, "aria-current", one === tab ? "page" : null);
  const label = TABS.find(([one]) => one === tab)[1];
  document.title = `${known === "server" ? argument : label} · mcpd`;
  window.scrollTo(0, 0);
}

window.addEventListener("hashchange", () => {
  if (!model.isKnown || location.hash === "#main") return;
  open();
  by("main").focus({ preventScroll: true });
});

/** Whether the process that serves the page is there. */
let isConnected = false;

function drawConnection() {
  const words = !isConnected ? "disconnected: run mcpd dashboard again" : model.outage === null ? "live" : "no daemon";
  setText(by("connection"), words);
  setAttribute(by("connection"), "class", `connection ${words === "live" ? "live" : "lost"}`);
}

function drawHead() {
  const servers = model.list();
  const down = servers.filter(([, server]) => model.isDown(server)).length;
  const starting = servers.filter(([, { report }]) => tone(report.state) === "moving").length;
  const uptime = model.elapsed(model.daemon.uptime_ms, model.received.get("daemon"));
  const parts = [`${model.daemon.version}`, `up ${duration(uptime)}`, count(servers.length, "server"), starting ? `${starting} starting` : null,
    count(model.agents.length, "agent")].filter(Boolean).join(" · ");
  const text = `${parts}|${down}`;
  if (text !== drawHead.text) {
    drawHead.text = text;
    replace(by("summary"), parts, down ? [" · ", el("strong", { class: "bad" }, `${down} down`)] : null);
  }
  const unapproved = servers.reduce((sum, [, { report }]) => sum + (report.changes?.changed ?? 0) + (report.changes?.new ?? 0), 0);
  setText(tabs.get("servers").badge, down ? String(down) : "");
  setAttribute(tabs.get("servers").badge, "aria-label", down ? `${down} down` : null);
  setText(tabs.get("agents").badge, model.agents.length ? String(model.agents.length) : "");
  setText(tabs.get("changes").badge, unapproved ? String(unapproved) : "");
  const banner = by("banner");
  banner.hidden = model.outage === null;
  if (model.outage !== null) setText(banner, `${model.outage}. The last known state is shown. \`mcpd start\` starts a daemon.`);
  drawConnection();
}

function draw() {
  [isDrawn, drawnAt] = [true, Date.now()];
  if (!model.isKnown) return;
  drawHead();
  if (view) view.update();
  else open();
}

function redraw() {
  if (!isDrawn) return;
  isDrawn = false;
  setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawnAt + PAUSE - Date.now()));
}

// Times go on although nothing changes.
setInterval(redraw, 1000);

// --- Events

function announce(changed) {
  const notable = changed.filter(([, former, present]) => tone(former) !== tone(present));
  if (!notable.length) return;
  const words = notable.slice(0, 3).map(([name, , present]) => `${name}: ${stateWord(present)}`);
  setText(by("announcements"), words.join(", ") + (notable.length > 3 ? ` and ${notable.length - 3} more` : ""));
}

function receive() {
  const events = new EventSource("api/events");
  const on = (name, handle) => events.addEventListener(name, ({ data }) => {
    handle(JSON.parse(data));
    redraw();
  });
  on("everything", (data) => {
    model.everything(data);
    isConnected = true;
  });
  on("change", (data) => announce(model.change(data)));
  on("points", (data) => model.addPoints(data));
  on("calls", (data) => model.addCalls(data.calls, data.skipped));
  events.addEventListener("error", () => {
    isConnected = false;
    drawConnection();
  });
}

receive();

// --- Keys

/** Rows of the view that lead somewhere. */
const rowLinks = () => [...document.querySelectorAll("main tbody a.name, main tbody a.row, main summary")];

function moveRow(step) {
  const links = rowLinks();
  const at = links.indexOf(document.activeElement);
  const next = links[at === -1 ? (step > 0 ? 0 : links.length - 1) : at + step];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const isTyping = event.target.matches?.("input[type=search], select, textarea");
  if (event.key === "Escape") {
    if (isTyping) event.target.blur();
    else if (location.hash.startsWith("#server/")) location.hash = "#servers";
    return;
  }
  if (event.target.matches?.("input[type=search]") && ["ArrowDown", "Enter"].includes(event.key)) {
    event.preventDefault();
    rowLinks()[0]?.focus();
    return;
  }
  if (isTyping) return;
  if (event.key === "/") {
    event.preventDefault();
    view?.input?.focus();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (event.target.matches?.("pre, .scroll") || !rowLinks().length) return;
    event.preventDefault();
    moveRow(event.key === "ArrowDown" ? 1 : -1);
  } else if (TABS[Number(event.key) - 1]) {
    location.hash = `#${TABS[Number(event.key) - 1][0]}`;
  }
});
