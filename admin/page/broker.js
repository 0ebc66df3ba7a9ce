// The MCP broker: its providers, the calls that are under way and what they hold, and what
// was reserved. It is asked for by itself, because to answer takes a look at the ledger.

import { byId, el, say } from "./dom.js";
import { clock, count, span } from "./format.js";
import { get, post } from "./stream.js";
import { sureButton } from "./sure.js";

const path = "/actuator/mcp";
const pageSize = 50;
const often = 2000; // milliseconds between two looks, unless one takes long

const states = {
  waiting: "waits in line", running: "running", "awaiting-input": "waits for input", task: "a task goes on",
  abandoned: "nobody waits any more", earlier: "of another process",
};
const outcomes = { denied: "denied", refused: "refused", invalid: "invalid", dropped: "dropped" };

export class Broker {
  #section = byId("broker");
  #form = byId("broker-filter");
  #rows = new Map(); // request id → its row, kept so that the focus stays on its button
  #offset = 0;
  #asked = 0; // so that a late answer does not replace a newer one
  #timer = null;
  #quiet; // says whether nobody looks

  constructor(quiet) {
    this.#quiet = quiet;
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.#form.addEventListener("input", () => this.#turn(-this.#offset));
    byId("broker-before").addEventListener("click", () => this.#turn(-pageSize));
    byId("broker-after").addEventListener("click", () => this.#turn(pageSize));
  }

  /** Shows the view while there is a broker. */
  show(there) {
    if (there === !this.#section.hidden) return;
    this.#section.hidden = !there;
    clearTimeout(this.#timer);
    if (there) this.#look();
  }

  #turn(by) {
    this.#offset = Math.max(0, this.#offset + by);
    clearTimeout(this.#timer);
    this.#look();
  }

  async #look() {
    const number = ++this.#asked;
    const began = performance.now();
    if (!this.#quiet()) {
      const query = new URLSearchParams([...new FormData(this.#form)].filter(([, value]) => value));
      query.set("offset", this.#offset);
      query.set("limit", pageSize);
      try {
        const answer = await get(`${path}?${query}`);
        if (number !== this.#asked) return;
        if (!answer.ok) throw new Error(answer.statusText);
        this.#draw(await answer.json());
      } catch (error) {
        if (number !== this.#asked) return;
        say(byId("broker-note"), `no answer (${error.message})`);
      }
    }
    if (number !== this.#asked || this.#section.hidden) return;
    this.#timer = setTimeout(() => this.#look(), Math.max(often, 10 * (performance.now() - began)));
  }

  #draw(d) {
    if (d.calls.total > 0 && d.calls.offset >= d.calls.total) { // the page that was shown has gone
      this.#turn(-pageSize);
      return;
    }
    say(byId("broker-note"), d.summary);
    drawProblems(d.problems);
    this.#drawSlots(d.slots);
    this.#drawCalls(d.calls);
    drawReservations(d.reservations, d.authority.limits);
    drawRefusals(d.refusals);
  }

  #drawSlots(slots) {
    if (!changed(byId("broker-slots"), slots)) return;
    byId("broker-slots").replaceChildren(...(slots.length ? slots.map(slotRow) : [emptyRow(5, "No slot has been configured, and no provider has dialled in.")]));
    const choice = this.#form.elements.slot;
    const names = ["", ...slots.map((slot) => slot.slot)];
    if (!changed(choice, names)) return; // it may be open
    const chosen = choice.value;
    choice.replaceChildren(...names.map((name) => el("option", { value: name }, name || "all slots")));
    choice.value = names.includes(chosen) ? chosen : "";
  }

  #drawCalls({ calls, total, offset }) {
    const rows = calls.map((call) => this.#row(call));
    const ids = new Set(calls.map((call) => call.requestId));
    for (const id of this.#rows.keys()) if (!ids.has(id)) this.#rows.delete(id);
    const filtered = [...new FormData(this.#form)].some(([, value]) => value);
    replace(byId("broker-calls"), rows.length ? rows : [emptyRow(5, filtered ? "No call is like that." : "No call is under way, and none holds a slot.")]);
    const last = offset + calls.length;
    say(byId("broker-range"), total ? `${count(offset + 1)}–${count(last)} of ${count(total)}` : "");
    byId("broker-before").disabled = offset === 0;
    byId("broker-after").disabled = last >= total;
    byId("broker-pages").hidden = total <= pageSize && offset === 0;
  }

  #row(call) {
    let row = this.#rows.get(call.requestId);
    if (!row) {
      row = newCall(call);
      this.#rows.set(call.requestId, row);
    }
    const [, , holds, state, age] = row.children;
    say(holds.firstChild, call.rules?.join(", ") ?? "nothing");
    holds.firstChild.className = call.rules ? "" : "none";
    say(state.firstChild, states[call.state] ?? call.state);
    state.firstChild.className = call.state === "abandoned" || call.state === "earlier" ? "some" : "";
    say(age.firstChild, span(call.ageMs));
    return row;
  }
}

/**
 * Puts rows into a body, and leaves it alone if they are there: a focus and a selection stay.
 * A focus whose row has gone stays at the table.
 */
function replace(body, rows) {
  if (rows.length === body.children.length && rows.every((row, i) => row === body.children[i])) return;
  const focused = document.activeElement;
  const inside = body.contains(focused);
  body.replaceChildren(...rows);
  if (inside) (body.contains(focused) ? focused : body.closest(".scroll")).focus({ preventScroll: true });
}

/** Whether an element is to be drawn anew, because what it shows is not what it did. */
function changed(element, shown) {
  const text = JSON.stringify(shown);
  const is = element.dataset.text !== text;
  element.dataset.text = text;
  return is;
}

const emptyRow = (columns, text) => el("tr", {}, el("td", { colspan: columns }, el("p", { class: "empty" }, text)));

function slotRow(slot) {
  const about = slot.error ?? slot.toolsError ?? [slot.provider, slot.protocolVersion].filter(Boolean).join(" · ");
  return el("tr", {},
    el("td", {}, el("span", { class: "id" }, slot.slot), el("span", { class: "sub" }, slot.kind === "dialled" ? "the broker calls it" : "dials in")),
    el("td", {}, el("span", { class: slot.connected ? "" : "some" }, slot.connected ? "connected" : "not connected"), el("br"), " ", el("span", { class: "sub" }, about)),
    el("td", { class: "n", "data-unit": slot.tools === 1 ? "tool" : "tools" }, count(slot.tools)),
    el("td", { class: "n", "data-unit": slot.clients === 1 ? "client" : "clients" }, count(slot.clients)),
    el("td", { class: "n", "data-unit": slot.badFrames === 1 ? "bad frame" : "bad frames" }, el("span", { class: slot.badFrames ? "some" : "none" }, count(slot.badFrames ?? 0))));
}

function newCall(call) {
  return el("tr", {},
    el("td", {}, el("span", { class: "id" }, call.tool ?? call.capability ?? "a request", " at ", call.slot), el("span", { class: "sub id" }, call.requestId)),
    el("td", {}, el("span", {}, call.identity ?? "")),
    el("td", { class: "holds" }, el("span")),
    el("td", {}, el("span")),
    el("td", { class: "n" }, el("span")),
    el("td", { class: "n" }, sureButton("Release", `Release call ${call.requestId} of ${call.tool ?? "a request"} at ${call.slot}`, () => release(call))));
}

/** Frees what a call holds: the operator says by it that the work has stopped. */
async function release(call) {
  const answer = await post(path + "/release", { slot: call.slot, requestId: call.requestId });
  const body = await answer.json();
  const text = body.note ?? body.detail ?? body.title;
  say(byId("broker-said"), `${call.requestId}: ${text}`);
  return [answer.ok ? "Done" : answer.status === 404 ? "Gone" : "Failed", answer.ok, text];
}

function drawProblems(problems) {
  const list = byId("broker-problems");
  if (!changed(list, problems.map((problem) => [problem.symptom, problem.slot, problem.fix]))) return;
  list.replaceChildren(...problems.map((problem) => el("li", { class: "banner " + problem.severity },
    el("b", {}, problem.slot ? `${problem.slot}: ` : "", problem.symptom), el("span", {}, problem.fix))));
}

function drawReservations({ reservations, total }, { openReservations, expiredReservations }) {
  byId("broker-reserved").hidden = total === 0 && openReservations + expiredReservations === 0;
  say(byId("broker-reserved-note"), `${count(openReservations)} open, ${count(expiredReservations)} expired` + (reservations.length < total ? `; the first ${count(reservations.length)} of these are shown` : ""));
  byId("broker-reservations").replaceChildren(...reservations.map((r) => el("tr", {},
    el("td", {}, el("span", { class: "id" }, `${count(r.quantity)} ${r.unit} at ${r.slot}`), el("span", { class: "sub id" }, r.reservationId)),
    el("td", {}, el("span", {}, r.identity)),
    el("td", {}, el("span", { class: r.expired ? "some" : "" }, r.expired ? "expired, never settled" : "open")),
    el("td", { class: "n" }, span(r.ageMs)))));
}

function drawRefusals(refusals) {
  if (!changed(byId("broker-refused"), refusals)) return;
  byId("broker-refused").hidden = refusals.length === 0;
  byId("broker-refusals").replaceChildren(...refusals.slice(0, 20).map((e) => el("tr", {},
    el("td", {}, el("time", { datetime: e.timestamp }, clock(new Date(e.timestamp)))),
    el("td", {}, el("span", {}, e.identity ?? "")),
    el("td", {}, [e.tool ?? e.method ?? e.action, "at", e.slot].join(" ")),
    el("td", {}, el("span", { class: "some" }, outcomes[e.outcome] ?? e.outcome), " ",
      el("span", { class: "sub" }, [e.reason, e.ruleId && "by " + e.ruleId, e.retryAfterMs && "again in " + span(e.retryAfterMs)].filter(Boolean).join(" · "))))));
}
