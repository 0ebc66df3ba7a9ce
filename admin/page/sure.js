// Buttons that change something, and ask once more before they do.

import { el } from "./dom.js";

/**
 * A button that says text. Pressed twice it calls act, which returns a promise of [word, done,
 * title]: what it says for a while then, and whether it is done. Leaving the button, or
 * Escape, takes the question back.
 */
export function sureButton(text, label, act) {
  const button = el("button", { type: "button", "aria-label": label }, text);
  const restore = () => { button.className = ""; button.textContent = text; };
  button.addEventListener("click", async () => {
    if (button.className === "busy") return;
    if (button.className !== "sure") {
      button.className = "sure";
      button.textContent = "Sure?";
      return;
    }
    button.className = "busy";
    const [word, done, title] = await act();
    button.className = done ? "done" : "";
    button.textContent = word;
    button.title = title ?? "";
    setTimeout(restore, 3000);
  });
  button.addEventListener("blur", () => { if (button.className === "sure") restore(); });
  button.addEventListener("keydown", (event) => { if (event.key === "Escape" && button.className === "sure") restore(); });
  return button;
}
