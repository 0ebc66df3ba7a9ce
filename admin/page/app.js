// The page: keeps the last minutes, draws them once a second.

import { byId, el, say } from "./dom.js";
import { count, rate, share, span } from "./format.js";
import { Chart, outcomes, swatch } from "./chart.js";
import { Broker } from "./broker.js";
import { Rules } from "./rules.js";
import { Recent, Talkers } from "./people.js";
import { follow, token } from "./stream.js";

const chart = new Chart(byId("chart"), byId("chart-said"));
const rules = new Rules();
const broker = new Broker(() => paused || document.hidden);
const talkers = new Talkers();
const recent = new Recent();
const legend = new Map(outcomes.map(([name, word]) => [name, el("li", {}, swatch(name), word, " ", el("b"))]));
byId("legend").append(...legend.values());

let now = null; // the last event; its series and sparks hold the history
let paused = false;

function receive(name, event) {
  if (name === "snapshot") {
    recent.clear();
    now = event;
  } else if (name === "tick" && now && event.time > now.time) {
    extend(event);
  } else {
    return;
  }
  if (!paused && !document.hidden) draw();
}

/** Adds a second to what we have. */
function extend(tick) {
  tick.series = [...now.series.slice(1), ...tick.series];
  const old = new Map(now.rules.map((rule) => [rule.id, rule.spark]));
  for (const rule of tick.rules) {
    const before = old.get(rule.id) ?? Array.from({ length: 60 }, () => ({ hits: 0, refused: 0 }));
    rule.spark = [...before.slice(1), ...rule.spark];
  }
  tick.recent = [...tick.recent, ...now.recent].slice(0, 256);
  now = tick;
}

function draw() {
  const column = Object.fromEntries(now.outcomes.map((name, i) => [name, i]));
  drawNumbers(column);
  drawLegend(column);
  drawBanners(now.state);
  chart.draw(now.series, now.outcomes, new Date(now.time).getTime());
  rules.draw(now.rules);
  broker.show(now.broker);
  talkers.draw(now.talkers);
  recent.add(now.recent, now.recentSkipped);
  say(byId("about"), [now.version, now.backend && now.backend + " store", now.state.configHash && "config " + now.state.configHash.slice(0, 8), "up " + span(Math.ceil(now.uptimeSeconds) * 1000)].filter(Boolean).join("  ·  "));
}

const admitted = ["allowed", "queued", "degraded", "shadow_refused"];

/** The sum over the last n seconds of some outcomes. */
const sum = (n, columns) => now.series.slice(-n).reduce((total, row) => total + columns.reduce((t, c) => t + row[c], 0), 0);

function drawNumbers(column) {
  const good = admitted.map((name) => column[name]);
  const all = [...good, column.refused, column.cancelled];
  say(byId("n-admitted"), rate(sum(3, good) / 3));
  const refused = sum(3, [column.refused]) / 3;
  say(byId("n-refused"), rate(refused));
  byId("n-refused").className = refused > 0 ? "some" : "";
  say(byId("n-share"), share(sum(60, [column.refused]) / Math.max(1, sum(60, all))));
  say(byId("n-waiting"), count(now.waiting));
  say(byId("n-held"), count(now.inFlight));
  say(byId("n-keys"), count(now.keys));
  say(byId("n-keys-of"), now.maxKeys ? "of " + count(now.maxKeys) : "kept");
}

function drawLegend(column) {
  for (const [name, item] of legend) {
    item.hidden = sum(now.series.length, [column[name]]) === 0 && name !== "allowed" && name !== "refused";
    say(item.querySelector("b"), rate(sum(3, [column[name]]) / 3));
  }
}

function drawBanners(state) {
  const notes = [];
  if (state.draining) notes.push(["", "Draining.", "The server finishes what it has and takes no new work."]);
  if (state.degraded) notes.push(["grave", "The store does not answer.", (state.storeFault ? state.storeFault + ". " : "") + "Each rule decides by its onStoreError until it does."]);
  if (state.notReady && !state.draining) notes.push(["grave", "Not ready.", state.notReady]);
  if (state.reloadError) notes.push(["grave", "The last reload failed.", "The configuration before it stays in force. " + state.reloadError]);
  const box = byId("banners");
  const text = JSON.stringify(notes);
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...notes.map(([kind, title, body]) => el("p", { class: "banner " + kind }, el("b", {}, title), el("span", {}, body))));
}

function login(why) {
  token.clear();
  if (why) say(byId("login-why"), why);
  const dialog = byId("login");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      token.set(byId("token").value);
      byId("token").value = "";
      resolve();
    }, { once: true });
  });
}

function state(kind, text) {
  byId("link").dataset.state = kind;
  say(byId("link-text"), paused && kind === "live" ? "paused" : text);
}

byId("pause").addEventListener("click", (event) => {
  paused = !paused;
  event.target.setAttribute("aria-pressed", paused);
  state(byId("link").dataset.state, paused ? "paused" : "live");
  if (!paused && now) draw();
});

const themes = ["auto", "light", "dark"];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("sluice-theme", theme);
  say(byId("theme"), "◐ " + theme[0].toUpperCase() + theme.slice(1));
  byId("theme").setAttribute("aria-label", "Colours: " + theme);
}
byId("theme").addEventListener("click", () => {
  setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);
});
setTheme(localStorage.getItem("sluice-theme") ?? "auto");

document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused && now) draw(); });
follow("/api/v1/stream", { event: receive, state, login });
