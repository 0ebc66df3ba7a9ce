// One WebSocket to the broker.

import { BrokerError, FinalError, LostError } from './errors.mjs';

const policyViolation = 1008; // with which the broker refuses a slot (RFC 6455, 7.4.1)
const connectMs = 10_000;

// The WebSocket of Node 22 takes headers, other than that of browsers.
function nativeSocket(url, protocol, headers) {
  if (typeof WebSocket === 'undefined') throw new FinalError('this Node has no WebSocket; give the option connect, as the README says');
  return new WebSocket(url, { protocols: [protocol], headers });
}

export class Connection {
  #socket;
  #onmessage;
  #pending = new Map(); // by id
  #asked = 0;
  #heard = performance.now();
  began = performance.now();
  #pulse;
  #end;
  #greet;
  /** Resolves with the reason when the connection has ended. */
  ended = new Promise((resolve) => { this.#end = resolve; });
  /** Resolves when the broker has sent something, which it does once the slot is ours. */
  welcome = new Promise((resolve) => { this.#greet = resolve; });

  constructor(socket, pulseMs, onmessage) {
    this.#socket = socket;
    this.#onmessage = onmessage;
    socket.addEventListener('message', (event) => this.#take(event.data));
    socket.addEventListener('close', ({ code, reason }) => {
      const text = `the broker has closed the connection (${code}) ${reason}`;
      this.#over(code === policyViolation ? new FinalError(text) : new LostError(text));
    });
    this.#pulse = setInterval(() => this.#beat(pulseMs), pulseMs);
  }

  /** Opens a connection. It fails with a FinalError, or with a LostError if it is worth trying again. */
  static async open({ url, headers, connect = nativeSocket, pulseMs, onmessage }) {
    const socket = connect(url, 'mcp', headers);
    const connection = new Connection(socket, pulseMs, onmessage);
    let timer;
    const opened = await new Promise((resolve) => {
      timer = setTimeout(() => resolve(false), connectMs);
      socket.addEventListener('open', () => resolve(true));
      // What an error event says differs from one WebSocket to the next.
      socket.addEventListener('error', () => resolve(false));
      socket.addEventListener('close', () => resolve(false));
    });
    clearTimeout(timer);
    if (opened) return connection;
    connection.close();
    throw await reasonOf(url, headers);
  }

  send(message) {
    if (this.#socket.readyState !== 1) throw new LostError();
    this.#socket.send(JSON.stringify(message));
  }

  /** Asks the broker; its refusal is a BrokerError. */
  ask(method, params) {
    return new Promise((resolve, reject) => {
      const id = `sdk-${++this.#asked}`;
      this.send({ jsonrpc: '2.0', id, method, params }); // what it throws rejects
      this.#pending.set(id, { resolve, reject });
    });
  }

  close() {
    this.#socket.close();
    this.#over(new LostError('the connection was closed'));
  }

  #over(reason) {
    clearInterval(this.#pulse);
    for (const { reject } of this.#pending.values()) reject(new LostError());
    this.#pending.clear();
    this.#end(reason);
  }

  // What is no answer to us is the server's.
  #take(text) {
    this.#heard = performance.now();
    this.#greet();
    const message = parsed(text);
    if (!message) return this.close();
    const waiting = message.method === undefined ? this.#pending.get(message.id) : undefined;
    if (!waiting) return this.#onmessage(message);
    this.#pending.delete(message.id);
    if (message.error) waiting.reject(new BrokerError(message.error));
    else waiting.resolve(message.result);
  }

  // Finds out when the broker has gone without a word: it answers pings of the protocol. One
  // that does not would not agree to a close either, which is why nobody waits for that.
  #beat(pulseMs) {
    if (performance.now() - this.#heard > 2 * pulseMs) this.close();
    else this.ask('ping').catch(() => {}); // whoever works on something finds out
  }
}

// The message in a text, undefined if there is none. What a listener throws would end the process.
function parsed(text) {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}

// Why the broker let nobody in: a WebSocket does not tell the status, a request does.
async function reasonOf(url, headers) {
  let status;
  try {
    const response = await fetch(url.replace(/^ws/, 'http'), { headers, redirect: 'manual', signal: AbortSignal.timeout(connectMs) });
    ({ status } = response);
    await response.body?.cancel();
  } catch {
    return new LostError('the broker is not there');
  }
  if (status === 401 || status === 403) return new FinalError(`the broker does not accept the secret (HTTP ${status})`);
  if (status === 404 || status === 400) return new FinalError(`no provider can dial in there (HTTP ${status})`);
  return new LostError(`the broker answered HTTP ${status}`);
}
