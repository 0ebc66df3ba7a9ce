// The table of rules.

import { byId, el, say, svg } from "./dom.js";
import { rate, share } from "./format.js";
import { spark } from "./chart.js";

const by = {
  id: (a, b) => a.id.localeCompare(b.id),
  hits: (a, b) => b.hitsPerSecond - a.hitsPerSecond,
  refused: (a, b) => b.refusedRatio - a.refusedRatio,
  waiting: (a, b) => b.waiting - a.waiting,
  held: (a, b) => b.held - a.held,
};

export class Rules {
  #body = byId("rules");
  #rows = new Map(); // rule ID → its row, kept so that focus and selection stay
  #sort = null; // null is the policy's own order, which decides who "the" refusing rule is
  #last = [];

  constructor() {
    for (const button of document.querySelectorAll("th button")) {
      button.addEventListener("click", () => this.#sortBy(button));
    }
  }

  #sortBy(button) {
    const column = button.dataset.sort;
    this.#sort = this.#sort === column ? null : column;
    for (const other of document.querySelectorAll("th button")) {
      const on = other.dataset.sort === this.#sort;
      if (on) other.parentElement.setAttribute("aria-sort", column === "id" ? "ascending" : "descending");
      else other.parentElement.removeAttribute("aria-sort");
    }
    this.draw(this.#last);
  }

  /** Draws rules; each has spark, its last minute. */
  draw(rules) {
    this.#last = rules;
    say(byId("rules-note"), this.#sort ? "" : "in the order of the policy");
    const shown = this.#sort ? rules.toSorted(by[this.#sort]) : rules;
    const rows = shown.map((rule) => this.#row(rule));
    for (const id of this.#rows.keys()) {
      if (!rules.some((rule) => rule.id === id)) this.#rows.delete(id);
    }
    if (rows.length === 0) {
      this.#body.replaceChildren(el("tr", {}, el("td", { colspan: 7 }, el("p", { class: "empty" }, "The policy has no rules: everything is admitted."))));
      return;
    }
    const same = rows.length === this.#body.children.length && rows.every((row, i) => row === this.#body.children[i]);
    if (!same) this.#body.replaceChildren(...rows);
  }

  #row(rule) {
    // A row is made anew when the policy says something else about the rule.
    const facts = JSON.stringify([rule.match, rule.limits, rule.groupBy, rule.shadow, rule.source]);
    let row = this.#rows.get(rule.id);
    if (row?.dataset.facts !== facts) {
      row = newRow(rule, facts);
      this.#rows.set(rule.id, row);
    }
    const [, , sparks, hits, refused, waiting, held] = row.children;
    spark(sparks.firstChild, rule.spark);
    figure(hits, rate(rule.hitsPerSecond), rule.hitsPerSecond === 0 ? "none" : "");
    figure(refused, share(rule.refusedRatio), rule.refusedRatio === 0 ? "none" : "some");
    figure(waiting, String(rule.waiting), rule.waiting === 0 ? "none" : "");
    figure(held, String(rule.held), rule.held === 0 ? "none" : "");
    return row;
  }
}

function newRow(rule, facts) {
  const grouped = rule.groupBy.length ? "for each " + rule.groupBy.join(" and ") : "for all together";
  return el("tr", { "data-facts": facts, class: rule.shadow ? "shadow" : undefined, title: rule.source ? "from " + rule.source : undefined },
    el("td", {},
      el("span", { class: "id" }, rule.id, rule.shadow ? el("span", { class: "tag", title: "Decides and reports, and refuses nobody" }, "shadow") : null),
      el("span", { class: "sub" }, rule.match)),
    el("td", {}, rule.limits.join(", "), el("br"), el("span", { class: "sub" }, grouped)),
    el("td", { class: "spark" }, svg("svg", { viewBox: "0 0 160 28", "aria-hidden": "true" }, svg("path", { class: "hits" }), svg("path", { class: "bad" }))),
    ...Array.from({ length: 4 }, () => el("td", { class: "n" }, el("span"))));
}

function figure(cell, text, kind) {
  say(cell.firstChild, text);
  cell.firstChild.className = kind;
}
