// The provider of sdk/typescript with a broker that this program plays, for what no broker of
// ours does:
//   mcp-provider-alone.mjs pauses   one that ends each connection after its greeting
//   mcp-provider-alone.mjs nonsense one that sends what is no message
//   mcp-provider-alone.mjs memory   one that is asked very often over one connection
import { ProviderTransport } from '../../sdk/typescript/index.mjs';

// A socket as the transport sees it; serve plays the other end.
class Socket extends EventTarget {
  readyState = 1;
  #serve;

  constructor(serve) {
    super();
    this.#serve = serve;
    queueMicrotask(() => {
      this.dispatchEvent(new Event('open'));
      this.#serve(this);
    });
  }

  // What the other end says.
  says(text) { queueMicrotask(() => this.dispatchEvent(new MessageEvent('message', { data: text }))); }

  send(text) { this.#serve(this, JSON.parse(text)); }

  close() {
    this.readyState = 3;
    this.dispatchEvent(Object.assign(new Event('close'), { code: 1001, reason: '' }));
  }
}

const greeting = '{"jsonrpc":"2.0","method":"notifications/hello"}';
const transport = (serve) => new ProviderTransport({ url: 'ws://broker', slot: 'plant', firstPauseMs: 10, longestPauseMs: 10_000, connect: () => new Socket(serve) });

const scenes = {
  async pauses() {
    const began = [];
    const t = transport((socket) => {
      began.push(performance.now());
      socket.says(greeting);
      setTimeout(() => socket.close());
      if (began.length === 6) t.close();
    });
    await t.start();
    await new Promise((resolve) => { t.onclose = resolve; });
    return began.slice(1).every((at, i) => at - began[i] >= 5 * 2 ** i) ? 'longer and longer' : `${began}`;
  },
  async nonsense() {
    const texts = ['{', 'null', new Blob(['{}'])];
    const t = transport((socket) => {
      socket.says(greeting);
      if (texts.length === 0) t.close();
      else setTimeout(() => socket.says(texts.pop()));
    });
    await t.start();
    await new Promise((resolve) => { t.onclose = resolve; });
    return 'alive';
  },
  async memory() {
    const t = transport((socket, message) => socket.says(message ? `{"jsonrpc":"2.0","id":"${message.id}","result":{}}` : greeting));
    await t.start();
    const used = async () => {
      for (let i = 0; i < 50_000; i++) await t.broker.settleBudget({ reservationId: 'r', used: 1, result: 'success' });
      globalThis.gc();
      return process.memoryUsage().heapUsed;
    };
    const more = await used().then(async (before) => await used() - before);
    await t.close();
    return more < 2e6 ? 'no more than before' : `${more} bytes more`;
  },
};

console.log(await scenes[process.argv[2]]());
