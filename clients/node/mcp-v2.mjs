// The TypeScript SDK of both eras as a client:
//   mcp-v2.mjs legacy|2026-07-28 http URL [header value]...   or   mcp-v2.mjs … stdio COMMAND [argument]...
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { run } from './mcp-commands.mjs';

const [era, kind, target, ...more] = process.argv.slice(2);
const headers = {};
for (let i = 0; kind !== 'stdio' && i < more.length; i += 2) headers[more[i]] = more[i + 1];
const transport =
  kind === 'http'
    ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } })
    : new StdioClientTransport({ command: target, args: more, env: process.env, stderr: 'inherit' });

const client = new Client(
  { name: 'sluice-v2', version: '1' },
  { versionNegotiation: { mode: era === 'legacy' ? 'legacy' : { pin: era } } },
);
await client.connect(transport);
await run(client, (params, options) => client.callTool(params, options));
