// The official client of OpenAI's API against the gateway.
import assert from 'node:assert/strict';
import process from 'node:process';
import OpenAI, { APIError, AuthenticationError, BadRequestError, RateLimitError } from 'openai';
import { broken, gateway, key, refusal, step, useless } from './steps.mjs';

const client = new OpenAI({ baseURL: gateway + '/v1', apiKey: key });
const question = (model, more) => ({ model, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }], ...more });
const chat = (model, more) => client.chat.completions.create(question(model, more));

await step('whole', async () => {
  const a = await chat('mock:text=hello');
  assert.equal(a.choices[0].message.content, 'hello');
  assert.equal(a.usage.completion_tokens, 16);
});
await step('streamed', async () => {
  let text = '';
  for await (const c of await chat('mock:text=hello,chunks=5', { stream: true })) {
    text += c.choices[0].delta.content ?? '';
    assert.equal(c.usage, undefined, 'usage that nobody asked for');
  }
  assert.equal(text, 'hello');
});
await step('a tool', async () => {
  const a = await chat('mock:tool');
  assert.equal(a.choices[0].message.tool_calls[0].function.name, 'weather');
});
await step('a tool, streamed', async () => {
  const a = await client.chat.completions.stream(question('mock:tool')).finalChatCompletion();
  assert.deepEqual(JSON.parse(a.choices[0].message.tool_calls[0].function.arguments), { city: 'Paris' });
});
await step('another endpoint', async () => {
  const a = await client.responses.create({ model: 'mock:text=hello', input: 'hi' });
  assert.equal(a.output_text, 'hello');
});
await step('larger than its limit', async () => {
  useless(await refusal(RateLimitError, () => chat('tight', { max_tokens: 5000 })));
});
await step('refused by the provider', () => refusal(BadRequestError, () => chat('mock:status=400')));
await step('room in a second', async () => {
  await chat('soon');
  await chat('soon');
});
await step('room in an hour', async () => {
  await chat('later');
  useless(await refusal(RateLimitError, () => chat('later')), true);
});
await step('with a wrong key', () =>
  refusal(AuthenticationError, () => client.withOptions({ apiKey: 'wrong' }).chat.completions.create(question('m'))));
await step('cut in the middle', () => broken(APIError, () => chat('mock:cut-at=3,silent', { stream: true })));
await step('a client that leaves', async () => {
  const stream = await chat('mock:output=1000,chunks=1000,between=20ms', { stream: true, max_tokens: 1000 });
  for await (const _ of stream) break; // which aborts the request
});
process.exit(0);
