// Numbers, times and states in words.

const DAY = 86_400_000;
// Made once, since that takes long.
const NUMBERS = new Intl.NumberFormat("en");

/** Such as `3 servers`. */
export function count(number, noun) {
  return `${NUMBERS.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Such as `2h 05m`. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  if (ms < DAY) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / 3_600_000)} h`;
}

/** A latency: three figures. */
export function latency(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  if (number < 1024) return `${number} B`;
  if (number < 1 << 20) return `${Math.round(number / 1024)} KiB`;
  if (number < 1 << 30) return `${(number / (1 << 20)).toFixed(number < 10 << 20 ? 1 : 0)} MiB`;
  return `${(number / (1 << 30)).toFixed(1)} GiB`;
}

export function percent(number) {
  if (number === null || number === undefined) return "–";
  return number < 10 ? `${number.toFixed(1)} %` : `${Math.round(number)} %`;
}

/** Such as `8.1k`. */
export function short(number) {
  if (number < 10_000) return String(Math.round(number * 10) / 10);
  return number < 1_000_000 ? `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

/** The time of day of an RFC 3339 time. */
export function clock(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString("en-GB");
}

export function dayAndTime(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

const GOOD = new Set(["ready"]);
const BAD = new Set(["failed", "backoff", "unresponsive", "list_failed", "needs_login"]);
const MOVING = new Set(["starting", "stopping"]);

/** `good`, `bad`, `moving` or `plain`. */
export function tone(state) {
  if (GOOD.has(state)) return "good";
  if (BAD.has(state)) return "bad";
  return MOVING.has(state) ? "moving" : "plain";
}

/** The state as a person reads it. */
export function stateWord(state) {
  return { list_failed: "list failed", needs_login: "needs login" }[state] ?? state;
}
