// What the page knows: everything at first, then differences.

const MAX_CALLS = 300;
/** Points of a plot at least. It grows with what is known, up to an hour. */
const MIN_SHOWN = 20;
/** Members of a point. */
export const [NUMBER, CALLS, ERRORS, MEDIAN, P95, MEMORY, CPU] = [0, 1, 2, 3, 4, 5, 6];
const PARTS = ["daemon", "agents", "running", "profiles", "configuration", "notes", "outage"];

export class Model {
  constructor() {
    this.servers = new Map();
    this.points = new Map();
    this.order = [];
    this.agents = [];
    this.running = [];
    this.profiles = [];
    this.notes = [];
    this.configuration = "";
    this.outage = null;
    this.daemon = null;
    this.calls = [];
    this.skipped = 0;
    this.received = new Map();
    this.versions = new Map();
    this.nextCall = 0;
    this.shown = MIN_SHOWN;
  }

  get isKnown() {
    return this.daemon !== null;
  }

  everything(data) {
    this.servers.clear();
    this.points.clear();
    this.calls = [];
    this.step = data.step_ms;
    this.steps = data.steps;
    // The server's clock at the browser's time 0.
    this.offset = data.now - Date.now();
    this.change(data);
    this.addPoints(data.points);
    this.addCalls(data.calls);
  }

  /** Returns the servers whose state has changed: `[name, former, present]`. */
  change(data) {
    const now = Date.now();
    for (const part of PARTS) {
      if (!(part in data)) continue;
      this[part] = data[part];
      this.received.set(part, now);
    }
    const changed = [];
    for (const [name, server] of Object.entries(data.servers ?? {})) {
      const former = this.servers.get(name);
      if (former && former.report.state !== server.report.state) {
        changed.push([name, former.report.state, server.report.state]);
      }
      this.servers.set(name, { ...server, received: now });
      this.touch(name);
    }
    if (data.order) {
      this.order = data.order;
      for (const name of [...this.servers.keys()]) {
        if (this.order.includes(name)) continue;
        this.servers.delete(name);
        this.points.delete(name);
      }
    }
    return changed;
  }

  addPoints(all) {
    const first = this.currentNumber() - this.steps;
    for (const [name, points] of Object.entries(all)) {
      const known = this.points.get(name) ?? new Map();
      for (const point of points) known.set(point[NUMBER], point);
      for (const number of known.keys()) if (number <= first) known.delete(number);
      this.points.set(name, known);
      this.touch(name);
    }
    const oldest = Math.min(...[...this.points.values()].flatMap((known) => [...known.keys()]));
    const known = this.currentNumber() - oldest + 1;
    this.shown = Math.min(this.steps, Math.max(MIN_SHOWN, Number.isFinite(known) ? known : 0));
  }

  addCalls(calls, skipped = 0) {
    for (const call of calls) this.calls.push({ ...call, key: this.nextCall++ });
    this.skipped += skipped;
    if (this.calls.length > MAX_CALLS) this.calls.splice(0, this.calls.length - MAX_CALLS);
  }

  touch(name) {
    this.versions.set(name, (this.versions.get(name) ?? 0) + 1);
  }

  /** Differs if anything that is shown of a server does. */
  version(name) {
    const { retry_in_ms: retry } = this.servers.get(name).report;
    const moment = retry !== undefined || this.rate(name) > 0 ? Math.floor(Date.now() / 1000) : 0;
    return `${this.versions.get(name)} ${this.currentNumber()} ${this.shown} ${moment}`;
  }

  /** Until the next start of a server, in milliseconds. */
  untilStart({ report, received }) {
    return report.retry_in_ms === undefined ? null : Math.max(0, report.retry_in_ms - (Date.now() - received));
  }

  currentNumber() {
    return Math.floor((Date.now() + this.offset) / this.step);
  }

  /** What plots show of one member, `null` where nothing is known. The last value is that of the point in progress. */
  series(name, member) {
    const points = this.points.get(name);
    const last = this.currentNumber();
    return Array.from({ length: this.shown }, (_, index) =>
      points?.get(last - this.shown + 1 + index)?.[member] ?? null);
  }

  /** The newest value, at most two minutes old. */
  latest(name, member) {
    const points = this.points.get(name);
    const last = this.currentNumber();
    for (let number = last; number > last - 4; number--) {
      const value = points?.get(number)?.[member];
      if (value !== null && value !== undefined) return value;
    }
    return null;
  }

  /** The greatest value of the last minute and the time since. */
  greatest(name, member) {
    const points = this.points.get(name);
    const last = this.currentNumber();
    const values = [last, last - 1, last - 2].map((number) => points?.get(number)?.[member] ?? null).filter((value) => value !== null);
    return values.length ? Math.max(...values) : null;
  }

  /** Calls per minute: of the last whole minute and the time since. */
  rate(name, member = CALLS) {
    const points = this.points.get(name);
    const now = Date.now() + this.offset;
    const last = this.currentNumber();
    const total = [last, last - 1, last - 2].reduce((sum, number) => sum + (points?.get(number)?.[member] ?? 0), 0);
    return total / ((now - (last - 2) * this.step) / 60_000);
  }

  /** The sum in the time that plots show. */
  sum(name, member) {
    return this.series(name, member).reduce((total, value) => total + (value ?? 0), 0);
  }

  list() {
    return this.order.map((name) => [name, this.servers.get(name)]).filter(([, server]) => server);
  }

  /** A time in a report, counted on. */
  elapsed(ms, received) {
    return ms + Date.now() - received;
  }

  isDown(server) {
    return (server.advice?.failures?.length ?? 0) > 0;
  }
}
