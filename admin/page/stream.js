// The server's events. EventSource cannot send a token, so this reads the stream itself.

const storeKey = "sluice-token";

/** The token of this tab; sessionStorage forgets it when the tab is closed. */
export const token = {
  get: () => sessionStorage.getItem(storeKey),
  set: (value) => sessionStorage.setItem(storeKey, value),
  clear: () => sessionStorage.removeItem(storeKey),
};

function headers(more = {}) {
  const held = token.get();
  return held ? { ...more, Authorization: "Bearer " + held } : more;
}

/** A question that is asked once. */
export const get = (path) => fetch(path, { headers: headers(), cache: "no-store" });

/** A change: POST with the header that tells the server it is this page that asks. */
export function post(path, body) {
  return fetch(path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json", "X-Sluice-Request": "page" }),
    body: JSON.stringify(body),
  });
}

/**
 * Calls on.event(name, data) for each event and on.state(state, why) when the connection
 * comes or goes, for ever. A lost connection is tried again after 1, 2, 4 … 30 seconds.
 * on.login(why) must return a promise that is kept when there is a new token.
 */
export async function follow(path, on) {
  let wait = 1000;
  for (;;) {
    try {
      const answer = await get(path);
      if (answer.status === 401) {
        await on.login(token.get() ? "That token is not right." : "");
        continue;
      }
      if (!answer.ok) throw new Error((await answer.json()).title);
      on.state("live", "live");
      wait = 1000;
      await read(answer.body, on.event);
      throw new Error("the server ended the stream");
    } catch (error) {
      on.state("lost", `no connection, trying again in ${wait / 1000} s (${error.message})`);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(2 * wait, 30_000);
  }
}

async function read(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) dispatch(event, onEvent);
  }
}

function dispatch(event, onEvent) {
  let name = "message";
  let data = "";
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (data) onEvent(name, JSON.parse(data));
}
