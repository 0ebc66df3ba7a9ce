// What the scripts share: a step tells the test that started the script how it went, and waits
// until the test has looked at what the gateway has seen.
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';

const { GATEWAY: gateway, KEY: key } = process.env;
assert.ok(gateway && key, 'GATEWAY and KEY say where the gateway is and which key it takes');
export { gateway, key };

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function step(name, work) {
  let error = '';
  try {
    await work();
  } catch (e) {
    error = String(e?.stack ?? e);
  }
  process.stdout.write(JSON.stringify({ step: name, error }) + '\n');
  if ((await answers.next()).done) process.exit(1);
}

// refusal returns the error with which a call fails.
export async function refusal(type, call) {
  try {
    await call();
  } catch (e) {
    assert.ok(e instanceof type, `${e?.constructor?.name}: ${e}`);
    return e;
  }
  assert.fail('the call went well');
}

// useless checks that the client was told not to come again, or not before an hour has passed.
export function useless(error, later) {
  assert.equal(error.headers.get('x-should-retry'), 'false');
  if (later) assert.ok(Number(error.headers.get('retry-after')) > 3000, error.headers.get('retry-after'));
}

// broken reads a stream that fails after it has begun.
export async function broken(type, stream) {
  let pieces = 0;
  await refusal(type, async () => {
    for await (const _ of await stream()) pieces++;
  });
  assert.ok(pieces > 0, 'nothing came before the failure');
}
