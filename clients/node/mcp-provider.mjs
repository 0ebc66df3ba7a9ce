// A provider on the TypeScript SDK of the protocol and the one of sdk/typescript:
//   mcp-provider.mjs native|ws URL SLOT [PULSE]   with its secret in PLANT_SECRET
// Its tool does what the test says, and returns what came of it as JSON.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import WebSocket from 'ws';
import { callerReferenceOf, ProviderTransport } from '../../sdk/typescript/index.mjs';

const [kind, url, slot, pulse] = process.argv.slice(2);
const connect = { ws: (to, protocol, headers) => new WebSocket(to, protocol, { headers }) }[kind];
const transport = new ProviderTransport({
  url, slot, connect, secret: process.env.PLANT_SECRET, firstPauseMs: 10, longestPauseMs: 100, pulseMs: pulse && Number(pulse),
  declaration: { version: '1', domain: 'plant', namespace: { resource: '/plant' }, capabilities: ['plant.run'], budgetUnits: ['op', 'joule'],
    resources: [{ resource: 'pump:1', resourcePath: '/plant/pump/1', limits: { minValue: 0, maxValue: 1500 } }] },
});
const { broker } = transport;
if (pulse) transport.onerror = ({ name, message }) => console.log(`${name}: ${message}`);

const query = (meta, more) => ({
  principal: { type: 'caller-ref', ref: callerReferenceOf(meta)?.ref ?? 'none' }, capability: 'plant.run', resource: 'tank:1', resourcePath: '/plant/tank/1',
  unit: 'op', quantity: 3, idempotencyKey: crypto.randomUUID(), ...more,
});
const stuck = () => { throw new Error('the valve is stuck'); };

const scenes = {
  echo: async (meta) => callerReferenceOf(meta),
  success: async (meta) => {
    let ran = 0;
    const result = await broker.withBudget(query(meta), async (grant) => (ran++, { ...grant, may: broker.mayBegin(grant) }));
    return { ran, result };
  },
  failure: (meta) => broker.withBudget(query(meta), stuck),
  conflict: (meta) => broker.withBudget(query(meta), ({ reservationId }) => broker.settleBudget({ reservationId, used: 1, result: 'success' })),
  'failure and conflict': (meta) => broker.withBudget(query(meta), async ({ reservationId }) => {
    await broker.settleBudget({ reservationId, used: 1, result: 'success' });
    stuck();
  }),
  replay: async (meta) => {
    const once = query(meta);
    const first = await broker.reserveBudget(once);
    const again = await broker.reserveBudget(once);
    let ran = 0;
    const error = await broker.withBudget(once, () => ran++).catch((e) => e);
    return { ran, same: first.reservationId === again.reservationId, replayed: [first.replayed, again.replayed], error: describe(error) };
  },
  expired: async (meta) => {
    let ran = 0;
    const error = await broker.withBudget(query(meta, { unit: 'joule' }), () => ran++).catch((e) => e);
    return { ran, error: describe(error) };
  },
  refused: (meta) => broker.reserveBudget(query(meta, { quantity: 99 })),
  stolen: () => broker.reserveBudget(query({})),
  authorize: (meta) => broker.authorize({
    principal: query(meta).principal,
    checks: [{ capability: 'plant.run', resource: 'pump:1', resourcePath: '/plant/pump/1' }, { capability: 'plant.run', resource: 'x', resourcePath: '/elsewhere' }],
  }),
  declare: (_) => broker.declare({ version: '2', domain: 'mcp', namespace: { resource: '/elsewhere' }, capabilities: [] }),
  // Works while the connection ends, and settles over the next.
  outlive: async (meta, signal) => {
    await broker.withBudget(query(meta), () => new Promise((resolve) => {
      signal.addEventListener('abort', resolve);
      console.log('working');
    }));
    console.log('settled');
  },
};

const describe = (e) => ({ name: e.name, message: e.message, reason: e.reason, ruleId: e.ruleId, retryAfterMs: e.retryAfterMs, problems: e.problems?.length });

const server = new Server({ name: 'plant', version: '1' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: 'run', inputSchema: { type: 'object' } }] }));
server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
  const done = await scenes[params.arguments.scene](extra._meta, extra.signal).then((value) => ({ value }), (error) => ({ error: describe(error) }));
  return { content: [{ type: 'text', text: JSON.stringify(done) }] };
});
try {
  await server.connect(transport);
  console.log('connected');
} catch (error) {
  console.log(JSON.stringify(describe(error)));
  process.exit(3);
}
