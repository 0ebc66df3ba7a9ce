// The stacked chart of the last minutes, and the small ones in the table.

import { el, svg, say } from "./dom.js";
import { clock, count } from "./format.js";

/** The outcomes from the bottom of the stack to the top, and what people call them. */
export const outcomes = [
  ["allowed", "admitted"],
  ["queued", "after a wait"],
  ["degraded", "without the store"],
  ["shadow_refused", "shadow refusal"],
  ["cancelled", "caller left"],
  ["refused", "refused"],
];

const height = 232;
const bottom = 208; // the base line; times stand below
const left = 46;

/** A little square in an outcome's colour; what is refused is hatched as well. */
export const swatch = (name) =>
  svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
    svg("rect", { width: 10, height: 10, class: "o-" + name }),
    name === "refused" ? svg("path", { d: "M-1 7 L7 -1 M3 11 L11 3", class: "hatch" }) : null);

/** A round number at or above n whose half is a whole one, so that the scale changes seldom. */
function ceiling(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 4)));
  return [1, 2, 4, 5, 8, 10].map((m) => m * power).find((v) => v >= n && v % 2 === 0);
}

export class Chart {
  #box; #svg; #layers; #frame; #crest; #cross; #tip; #said; #rows = []; #columns = []; #end; #at = null; #top = 4;

  constructor(box, said) {
    this.#box = box;
    this.#said = said;
    this.#layers = new Map(outcomes.map(([name]) => [name, svg("path", { class: "o-" + name })]));
    this.#frame = svg("g");
    this.#cross = svg("line", { class: "cross", y1: 0, y2: bottom, visibility: "hidden" });
    this.#crest = svg("path", { class: "crest" });
    const hatching = svg("path", { fill: "url(#hatching)" });
    this.#layers.set("hatching", hatching);
    this.#svg = svg("svg", { "aria-hidden": "true" },
      svg("defs", {}, svg("pattern", { id: "hatching", width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        svg("path", { d: "M-1 4 L4 -1 M2 7 L7 2", class: "hatch" })),
        svg("linearGradient", { id: "wash", x1: 0, y1: 0, x2: 0, y2: bottom, gradientUnits: "userSpaceOnUse" },
          svg("stop", { offset: 0, "stop-opacity": 0.75 }), svg("stop", { offset: 1, "stop-opacity": 0.12 }))),
      this.#frame, ...this.#layers.values(), this.#crest, this.#cross);
    this.#tip = el("div", { class: "tip", hidden: true });
    box.append(this.#svg, this.#tip);
    box.addEventListener("pointermove", (event) => this.#point(this.#index(event)));
    box.addEventListener("pointerleave", () => this.#point(null));
    box.addEventListener("blur", () => this.#point(null));
    box.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw(this.#rows, this.#columns, this.#end)).observe(box);
  }

  /** Draws rows, one a second and oldest first, the last of which ended at end. */
  draw(rows, columns, end) {
    this.#rows = rows;
    this.#columns = columns;
    this.#end = end;
    if (!rows.length) return;
    const order = outcomes.map(([name]) => columns.indexOf(name));
    const sums = rows.map((row) => order.reduce((sum, column) => sum + row[column], 0));
    this.#top = ceiling(Math.max(...sums));
    this.#drawFrame();
    let base = rows.map(() => 0);
    outcomes.forEach(([name], i) => {
      const next = rows.map((row, x) => base[x] + row[order[i]]);
      const path = this.#area(base, next);
      this.#layers.get(name).setAttribute("d", path);
      if (name === "allowed") this.#crest.setAttribute("d", this.#line(next));
      if (name === "refused") this.#layers.get("hatching").setAttribute("d", path);
      base = next;
    });
    if (this.#at !== null) this.#point(this.#at);
  }

  get #width() { return this.#box.clientWidth; }
  #x(i) { return left + (i * (this.#width - left)) / Math.max(1, this.#rows.length - 1); }
  #y(value) { return bottom - (value / this.#top) * (bottom - 8); }

  #points(values) {
    return values.map((value, i) => this.#x(i).toFixed(1) + " " + this.#y(value).toFixed(1));
  }

  #line(values) { return "M" + this.#points(values).join("L"); }

  #area(low, high) {
    if (high.every((value, i) => value === low[i])) return "";
    return this.#line(high) + "L" + this.#points(low).reverse().join("L") + "Z";
  }

  #drawFrame() {
    const parts = [];
    for (const portion of [0, 0.5, 1]) {
      const y = Math.round(this.#y(this.#top * portion)) + 0.5;
      parts.push(svg("line", { class: "grid", x1: left, x2: this.#width, y1: y, y2: y }));
      parts.push(svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, count(this.#top * portion)));
    }
    for (let ago = 0; ago < this.#rows.length; ago += 60) {
      const x = this.#x(this.#rows.length - 1 - ago);
      const anchor = ago === 0 ? "end" : "middle";
      parts.push(svg("text", { x, y: height - 4, "text-anchor": anchor }, ago === 0 ? "now" : `−${ago / 60} min`));
    }
    this.#frame.replaceChildren(...parts);
  }

  #index(event) {
    const x = event.clientX - this.#box.getBoundingClientRect().left;
    const i = Math.round(((x - left) / (this.#width - left)) * (this.#rows.length - 1));
    return i < 0 || !this.#rows.length ? null : Math.min(i, this.#rows.length - 1);
  }

  #key(event) {
    const last = this.#rows.length - 1;
    const at = this.#at ?? last;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 30, PageDown: at + 30, Home: 0, End: last, Escape: null }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#point(next === null ? null : Math.min(last, Math.max(0, next)), true);
  }

  /** Shows what second i was like; null shows none. */
  #point(i, aloud = false) {
    this.#at = i;
    this.#tip.hidden = i === null || !this.#rows.length;
    this.#cross.setAttribute("visibility", this.#tip.hidden ? "hidden" : "visible");
    if (this.#tip.hidden) return;
    const x = this.#x(i);
    this.#cross.setAttribute("x1", x);
    this.#cross.setAttribute("x2", x);
    const at = clock(new Date(this.#end - (this.#rows.length - 1 - i) * 1000));
    const lines = outcomes
      .map(([name, word]) => [name, word, this.#rows[i][this.#columns.indexOf(name)]])
      .filter(([name, , n]) => n > 0 || name === "allowed" || name === "refused").reverse();
    this.#tip.replaceChildren(el("p", {}, at), el("ul", {},
      ...lines.map(([name, word, n]) => el("li", {}, swatch(name), word, el("b", {}, count(n))))));
    const beside = x + 14 + this.#tip.offsetWidth > this.#width ? x - 14 - this.#tip.offsetWidth : x + 14;
    this.#tip.style.left = beside + "px";
    if (aloud) say(this.#said, `${at}: ` + lines.map(([, word, n]) => `${n} ${word}`).join(", "));
  }
}

/** Draws a rule's last minute into an svg of 160 × 28: hits, and what was refused of them. */
export function spark(target, points) {
  const top = Math.max(1, ...points.map((p) => p.hits));
  const step = 160 / points.length;
  const bars = (of) => points.map((p, i) => {
    const h = (of(p) / top) * 27;
    return h > 0 ? `M${(i * step).toFixed(1)} ${(28 - h).toFixed(1)}h${(step - 0.5).toFixed(2)}V28h${(0.5 - step).toFixed(2)}Z` : "";
  }).join("");
  const [hits, bad] = target.children;
  hits.setAttribute("d", bars((p) => p.hits));
  bad.setAttribute("d", bars((p) => p.refused));
}
