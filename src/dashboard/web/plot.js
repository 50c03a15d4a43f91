// Plots of the last hour, or of what is known of it, as SVG. Each has its newest and its greatest value in words.

import { el, setAttribute, setText, svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 28;

/** A greatest value that is easy to read: 1, 2 or 5 times a power of ten. */
export function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/** The same for bytes, in the units in which they are shown. */
export function roundUpBytes(value) {
  const unit = [2 ** 30, 2 ** 20, 2 ** 10].find((one) => one <= value) ?? 1;
  return roundUp(value / unit) * unit;
}

const greatest = (values) => values.reduce((most, value) => Math.max(most, value ?? 0), 0);
const place = (value, most, height) => (height - 1 - (value / most) * (height - 2)).toFixed(1);

/** Lines through the values, with gaps where there are none. A lone value is a short line. */
function line(values, most, width, height) {
  const step = width / values.length;
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const y = place(value, most, height);
    const x = (index * step).toFixed(1);
    path += (index > 0 && values[index - 1] !== null ? `L${x} ${y}` : `M${x} ${y}`);
    if (values[index + 1] === null || index === values.length - 1) path += `h${step.toFixed(1)}`;
  });
  return path;
}

/** A bar for each value over 0. */
function bars(values, most, width, height) {
  const step = width / values.length;
  let path = "";
  values.forEach((value, index) => {
    if (!value) return;
    const tall = Math.max(1.5, (value / most) * (height - 1)).toFixed(1);
    path += `M${(index * step).toFixed(1)} ${height}v-${tall}h${(step * 0.8).toFixed(1)}v${tall}z`;
  });
  return path;
}

/** A small plot for a cell. `update(values, errors)`; errors are bars in front. */
export function spark(kind) {
  const main = svg("path", { class: kind === "bars" ? "bars" : "line" });
  const errors = svg("path", { class: "bars error" });
  const node = svg("svg", {
    class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false",
  }, svg("path", { class: "ground", d: `M0 ${HEIGHT - 0.5}h${WIDTH}` }), main, errors);
  return {
    node,
    update(values, wrong = []) {
      // A line without changes is not at the edge.
      const most = (greatest(values) || 1) * (kind === "bars" ? 1 : 1.4);
      setAttribute(main, "d", (kind === "bars" ? bars : line)(values, most, WIDTH, HEIGHT));
      setAttribute(errors, "d", bars(wrong, most, WIDTH, HEIGHT));
    },
  };
}

const WIDE = 480;
const TALL = 110;

/**
 * A plot with its scale. `series`: `[{label, kind, tone}]`, in the order of `update(values, …)`. `show(value)` is the value in words. Moving
 * over it shows the values of that time.
 */
export function chart(title, series, show, round = roundUp) {
  const paths = series.map(({ kind, tone }) => svg("path", { class: `${kind} ${tone}` }));
  const cursor = svg("path", { class: "cursor" });
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", role: "img" },
    svg("path", { class: "grid", d: `M0 1h${WIDE}M0 ${TALL / 2}h${WIDE}` }),
    svg("path", { class: "ground", d: `M0 ${TALL - 0.5}h${WIDE}` }), paths, cursor);
  const top = el("span", { class: "most" });
  const [first, middle] = [el("span", {}), el("span", {})];
  const reading = el("span", { class: "reading" });
  const legend = series.length > 1
    ? el("span", { class: "legend" }, series.map(({ label, tone }) => el("span", { class: `key ${tone}` }, label))) : null;
  const node = el("figure", { class: "chart" },
    el("figcaption", {}, el("span", { class: "title" }, title), legend, reading),
    el("div", { class: "plot" }, top, drawing),
    el("p", { class: "axis", "aria-hidden": "true" }, first, middle, el("span", {}, "now")));
  let shown = [];
  let step = 30_000;
  const at = (index) => shown.map((values) => show(values[index] ?? null)).join(" / ");
  const newest = () => {
    const index = (shown[0]?.length ?? 1) - 1;
    return [index, index - 1].find((one) => shown.some((values) => values[one] !== null)) ?? index;
  };
  const rest = () => {
    setText(reading, shown.length ? at(newest()) : "");
    setAttribute(cursor, "d", "");
  };
  let isPointed = false;
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const length = shown[0]?.length ?? 0;
    const index = Math.min(length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * length)));
    isPointed = true;
    const ago = ((length - 1 - index) * step) / 60_000;
    setText(reading, `${ago === 0 ? "now" : `${ago} min ago`}: ${at(index)}`);
    setAttribute(cursor, "d", `M${(((index + 0.5) / length) * WIDE).toFixed(1)} 0v${TALL}`);
  });
  drawing.addEventListener("pointerleave", () => { isPointed = false; rest(); });
  return {
    node,
    update(all, stepMs) {
      shown = all;
      step = stepMs;
      const minutes = Math.round((all[0].length * step) / 60_000);
      setText(first, `${minutes} min ago`);
      setText(middle, String(minutes / 2));
      const peak = Math.max(...all.map(greatest));
      const most = round(peak);
      all.forEach((values, index) => {
        const draw = series[index].kind === "bars" ? bars : line;
        setAttribute(paths[index], "d", draw(values, most, WIDE, TALL));
      });
      setText(top, peak > 0 ? show(most) : "");
      setAttribute(drawing, "aria-label", `${title}: now ${at(newest())}, at most ${show(peak || null)} in ${minutes} minutes`);
      if (!isPointed) rest();
    },
  };
}
