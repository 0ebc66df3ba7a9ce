// Elements, built. Text goes in by textContent alone: names come from callers, and the
// page's content policy forbids turning text into markup anyway.

const svgNames = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

/** An HTML element. Strings among the children become text. */
export const el = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

/** An SVG element. */
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(svgNames, name), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Sets text only where it differs, so that a screen reader and a selection keep calm. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
