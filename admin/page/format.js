// Numbers and times in words, short.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count: 950, 12,400, 1.2M. */
export const count = (n) => (n < 100_000 ? whole.format(n) : short.format(n));

/** A rate per second: one decimal while it is small. */
export function rate(n) {
  if (n === 0) return "0";
  if (n < 0.05) return "<0.1";
  return n < 10 ? n.toFixed(1) : count(n);
}

/** A share: 0%, <0.1%, 4.2%, 37%. */
export function share(ratio) {
  const percent = ratio * 100;
  if (percent === 0) return "0%";
  if (percent < 0.1) return "<0.1%";
  return percent < 10 ? percent.toFixed(1) + "%" : Math.round(percent) + "%";
}

/** A span of milliseconds: 40 ms, 1.5 s, 3 min, 2 h. */
export function span(ms) {
  if (ms < 1000) return Math.max(1, Math.round(ms)) + " ms";
  const s = ms / 1000;
  if (s < 10) return s.toFixed(1).replace(/\.0$/, "") + " s";
  if (s < 120) return Math.round(s) + " s";
  return s < 7200 ? Math.round(s / 60) + " min" : Math.round(s / 3600) + " h";
}

/** A time of day. */
export const clock = (date) => date.toLocaleTimeString("en-GB");
