// The official client of Anthropic's API against the gateway.
import assert from 'node:assert/strict';
import process from 'node:process';
import Anthropic, { APIError, AuthenticationError, BadRequestError, RateLimitError } from '@anthropic-ai/sdk';
import { broken, gateway, key, refusal, step, useless } from './steps.mjs';

const client = new Anthropic({ baseURL: gateway, apiKey: key });
const question = (model, more) => ({ model, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }], ...more });
const ask = (model, more) => client.messages.create(question(model, more));

await step('whole', async () => {
  const a = await ask('mock:text=hello');
  assert.equal(a.content[0].text, 'hello');
  assert.equal(a.usage.output_tokens, 16);
});
await step('streamed', async () => {
  const a = client.messages.stream(question('mock:text=hello,chunks=5'));
  assert.equal(await a.finalText(), 'hello');
  assert.equal((await a.finalMessage()).usage.output_tokens, 16);
});
await step('a tool', async () => {
  const a = await ask('mock:tool');
  assert.equal(a.content[0].name, 'weather');
});
await step('a tool, streamed', async () => {
  const a = await client.messages.stream(question('mock:tool')).finalMessage();
  assert.deepEqual(a.content[0].input, { city: 'Paris' });
  assert.equal(a.stop_reason, 'tool_use');
});
await step('another endpoint', async () => {
  const a = await client.messages.countTokens({ model: 'm', messages: question('m').messages });
  assert.ok(a.input_tokens > 0);
});
await step('larger than its limit', async () => {
  useless(await refusal(RateLimitError, () => ask('tight', { max_tokens: 5000 })));
});
await step('refused by the provider', () => refusal(BadRequestError, () => ask('mock:status=400')));
await step('room in a second', async () => {
  await ask('soon');
  await ask('soon');
});
await step('room in an hour', async () => {
  await ask('later');
  useless(await refusal(RateLimitError, () => ask('later')), true);
});
await step('with a wrong key', () =>
  refusal(AuthenticationError, () => client.withOptions({ apiKey: 'wrong' }).messages.create(question('m'))));
await step('cut in the middle', () => broken(APIError, () => ask('mock:cut-at=3,silent', { stream: true })));
await step('a client that leaves', async () => {
  const stream = await ask('mock:output=1000,chunks=1000,between=20ms', { stream: true, max_tokens: 1000 });
  for await (const _ of stream) break; // which aborts the request
});
process.exit(0);
