// The TypeScript SDK of the protocol's legacy era as a client:
//   mcp-v1.mjs http|sse|websocket URL [header value]...   or   mcp-v1.mjs stdio COMMAND [argument]...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import { run } from './mcp-commands.mjs';

const [kind, target, ...more] = process.argv.slice(2);
const headers = {};
for (let i = 0; kind !== 'stdio' && i < more.length; i += 2) headers[more[i]] = more[i + 1];
const options = { requestInit: { headers } };
const transport = {
  http: () => new StreamableHTTPClientTransport(new URL(target), options),
  sse: () => new SSEClientTransport(new URL(target), options),
  websocket: () => new WebSocketClientTransport(new URL(target)),
  stdio: () => new StdioClientTransport({ command: target, args: more, env: process.env, stderr: 'inherit' }),
}[kind]();

const client = new Client({ name: 'sluice-v1', version: '1' });
await client.connect(transport);
await run(client, (params, options) => client.callTool(params, undefined, options));
