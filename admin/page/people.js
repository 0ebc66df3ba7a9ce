// Who calls most, and who was refused.

import { byId, el, say, svg } from "./dom.js";
import { clock, count, rate, share, span } from "./format.js";
import { post } from "./stream.js";
import { sureButton } from "./sure.js";

const talkersShown = 12;
const recentShown = 40;

export class Talkers {
  #list = byId("talkers");
  #rows = new Map(); // label → row

  draw(talkers) {
    const shown = talkers.slice(0, talkersShown);
    if (shown.length === 0) {
      this.#rows.clear();
      this.#list.replaceChildren(el("li", { class: "empty-row" }, el("p", { class: "empty" }, "Nobody has called in the last minute.")));
      return;
    }
    const most = shown[0].perSecond;
    const rows = shown.map((talker) => this.#row(talker, most));
    const labels = new Set(shown.map((talker) => talker.label));
    for (const label of this.#rows.keys()) if (!labels.has(label)) this.#rows.delete(label);
    // A row with the focus is moved, not made anew, and gets the focus back.
    const focused = document.activeElement;
    if (rows.some((row, i) => row !== this.#list.children[i]) || rows.length !== this.#list.children.length) {
      this.#list.replaceChildren(...rows);
      if (this.#list.contains(focused)) focused.focus({ preventScroll: true });
    }
  }

  #row(talker, most) {
    let row = this.#rows.get(talker.label);
    if (!row) {
      row = newTalker(talker);
      this.#rows.set(talker.label, row);
    }
    const [, figures, percent, bar] = row.children;
    const part = talker.refusedPerSecond / talker.perSecond;
    say(figures, rate(talker.perSecond));
    say(percent, part > 0 ? share(part) + " refused" : "");
    const width = (100 * talker.perSecond) / most;
    bar.children[0].setAttribute("width", width * (1 - part) + "%");
    bar.children[1].setAttribute("x", width * (1 - part) + "%");
    bar.children[1].setAttribute("width", width * part + "%");
    return row;
  }
}

function newTalker(talker) {
  return el("li", {},
    el("span", { class: "id", title: talker.key ?? talker.label }, talker.label),
    el("span", { class: "rate" }),
    el("span", { class: "pct some" }),
    svg("svg", { "aria-hidden": "true" }, svg("rect", { class: "bar-good", height: 4 }), svg("rect", { class: "bar-bad", height: 4 })),
    talker.key ? resetButton(talker) : null);
}

function resetButton(talker) {
  return sureButton("Reset", `Reset the limits of ${talker.label}`, async () => {
    const answer = await post("/actuator/ratelimits/reset", { key: talker.key });
    const body = await answer.json();
    return [!answer.ok ? "Failed" : body.foundAndReset ? "Done" : "Full", answer.ok, body.message ?? body.detail ?? body.title];
  });
}

const words = {
  rate: "too fast", concurrency: "too many at once", budget: "budget used up", cooldown: "cooling down",
  queue_full: "line full", queue_timeout: "waited too long", too_large: "too large", denied: "denied",
  missing: "no identity", invalid: "invalid", store_unavailable: "store down", store_full: "store full",
  shadow_refused: "shadow refusal", cancelled: "caller left", degraded: "without the store",
};

/** Refusals of one caller by one rule are one line, however many: a flood stays readable. */
export class Recent {
  #list = byId("recent");
  #lines = new Map(); // caller, rule and outcome → its line, last seen last
  #newest = 0;

  /** Adds entries, newest first. */
  add(entries, skipped) {
    const fresh = entries.filter((entry) => entry.seq > this.#newest).reverse();
    const arrived = this.#newest > 0 ? "new" : ""; // the first lot was there before us
    for (const entry of fresh) this.#put(entry, arrived);
    if (fresh.length || !this.#list.children.length) this.#show();
    say(byId("recent-note"), skipped ? `a sample; ${count(skipped)} more happened` : "");
  }

  #put(entry, arrived) {
    this.#newest = entry.seq;
    const key = JSON.stringify([entry.subject, entry.rule, entry.outcome, entry.reason]);
    const times = (this.#lines.get(key)?.times ?? 0) + 1;
    this.#lines.delete(key);
    this.#lines.set(key, { times, row: newEntry(entry, times, arrived) });
    if (this.#lines.size > recentShown) this.#lines.delete(this.#lines.keys().next().value);
  }

  #show() {
    const rows = [...this.#lines.values()].map((line) => line.row).reverse();
    const empty = el("li", {}, el("p", { class: "empty" }, "Nobody has been refused."));
    this.#list.replaceChildren(...(rows.length ? rows : [empty]));
  }

  clear() {
    this.#newest = 0;
    this.#lines.clear();
    this.#list.replaceChildren();
  }
}

function newEntry(entry, times, arrived) {
  const what = words[entry.reason ?? entry.outcome] ?? entry.reason ?? entry.outcome;
  const where = [entry.rule && "by " + entry.rule, entry.method, entry.retryAfterMs && "again in " + span(entry.retryAfterMs),
    entry.waitedMs && "waited " + span(entry.waitedMs)].filter(Boolean).join(" · ");
  return el("li", { class: arrived },
    el("time", { datetime: entry.time }, clock(new Date(entry.time))),
    el("span", { class: "who id", title: entry.subject }, entry.subject || "nobody"),
    el("span", { class: "what " + entry.outcome }, what, times > 1 ? el("b", {}, "×" + count(times)) : null),
    el("span", { class: "why" }, where));
}
