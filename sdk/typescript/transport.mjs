// A transport for the servers of @modelcontextprotocol/sdk that holds a slot in a broker through
// broken connections.

import { Broker } from './broker.mjs';
import { Connection } from './connection.mjs';
import { FinalError, LostError } from './errors.mjs';

const slotForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export class ProviderTransport {
  onclose;
  onerror;
  onmessage;
  broker;

  #options;
  #declaration;
  #connection; // undefined while there is none
  #changed; // a promise that resolves when there is another connection, or none any more
  #change; // resolves it
  #running = new Set(); // ids of the broker's requests under way
  #closed = false;
  #wake = () => {};

  constructor({ url, slot, secret, declaration, connect, firstPauseMs = 200, longestPauseMs = 15_000, pulseMs = 15_000, settleWithinMs, clockDifferenceMs }) {
    const at = addressOf(url, slot);
    this.#options = { url: at, headers: secret ? { 'X-Provider-Token': secret } : {}, connect, firstPauseMs, longestPauseMs, pulseMs };
    this.#declaration = declaration;
    const transport = this;
    this.#use(undefined);
    this.broker = new Broker({
      ask: (method, params) => transport.#ask(method, params),
      changed: () => transport.#changed,
      set declaration(next) { transport.#declaration = next; },
    }, { settleWithinMs, clockDifferenceMs });
  }

  async start() {
    for (let failures = 0; ; failures++) {
      try {
        this.#keep(await this.#dial());
        return;
      } catch (error) {
        if (this.#closed || !(error instanceof LostError)) throw error;
        await this.#pause(failures, error);
      }
    }
  }

  async send(message) {
    if (message.method === undefined) this.#running.delete(message.id);
    try {
      this.#connection?.send(message);
    } catch (error) {
      this.onerror?.(error); // whoever it was for has been answered by the broker
    }
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#wake();
    this.#connection?.close();
    this.#use(undefined);
    this.onclose?.();
  }

  // Makes a connection and declares. Nothing is served before that has been accepted.
  async #dial() {
    if (this.#closed) throw new FinalError('the transport is closed');
    let open;
    const opened = new Promise((resolve) => { open = resolve; });
    const connection = await Connection.open({ ...this.#options, onmessage: (message) => opened.then(() => this.#take(message)) });
    // Why the broker has ended a connection says more than that an answer is lost.
    const orEnded = (step) => Promise.race([
      connection.ended.then((reason) => { throw reason; }),
      step.catch((error) => { if (!(error instanceof LostError)) throw error; return connection.ended; }),
    ]);
    try {
      if (this.#declaration) await orEnded(connection.ask('broker/authorization/declare', this.#declaration));
      this.#use(connection); // before anything is served: tools ask over it
      open();
      await orEnded(connection.welcome);
      if (this.#closed) throw new FinalError('the transport is closed');
      return connection;
    } catch (error) {
      this.#use(undefined);
      connection.close();
      throw error;
    }
  }

  // Makes the connection again whenever it has ended. It never fails: what goes wrong is told.
  async #keep(connection) {
    for (let failures = 0; ; failures++) {
      let reason = connection && await connection.ended;
      // One that did not last is as good as a failure, or they would follow each other at once.
      if (connection && performance.now() - connection.began >= this.#options.longestPauseMs) failures = 0;
      this.#lost();
      if (this.#closed) return;
      await this.#pause(failures, reason);
      connection = await this.#dial().catch((error) => { reason = error; });
      if (reason && !connection && !this.#closed) this.onerror?.(reason);
    }
  }

  // Cancels what is under way: the broker has answered it.
  #lost() {
    this.#use(undefined);
    const running = [...this.#running];
    this.#running.clear();
    for (const requestId of running) {
      this.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason: 'the connection was lost' } });
    }
  }

  #take(message) {
    if (message.method !== undefined && message.id !== undefined) this.#running.add(message.id);
    this.onmessage?.(message);
  }

  #use(connection) {
    this.#connection = connection;
    this.#change?.();
    this.#changed = new Promise((resolve) => { this.#change = resolve; });
  }

  async #ask(method, params) {
    if (this.#closed) throw new FinalError('the transport is closed');
    if (!this.#connection) throw new LostError();
    return this.#connection.ask(method, params);
  }

  // Half of each pause is random, so that not all providers come back at once.
  async #pause(failures, reason) {
    if (reason) this.onerror?.(reason);
    const most = Math.min(this.#options.firstPauseMs * 2 ** Math.min(failures, 20), this.#options.longestPauseMs);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, most / 2 + (Math.random() * most) / 2);
      this.#wake = () => { clearTimeout(timer); resolve(); };
    });
  }
}

function addressOf(url, slot) {
  const at = new URL(url);
  if (!/^(ws|http)s?:$/.test(at.protocol) || at.search || at.username || at.password) {
    throw new TypeError('url has to be ws:// or wss:// and the host of the broker, without a query and without credentials');
  }
  if (!slotForm.test(slot)) throw new TypeError('slot has to be 1 to 128 of letters, digits and ._-, the first a letter or digit');
  return `${at.protocol.replace('http', 'ws')}//${at.host}${at.pathname.replace(/\/$/, '')}/provider/${slot}`;
}
