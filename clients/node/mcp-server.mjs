// A server on the TypeScript SDK of both eras, over stdio. Its tools do what those of
// mcp/mcptest of the same names do.
import { ProtocolError, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const said = (text, isError = false) => ({ content: [{ type: 'text', text }], isError });

const tools = {
  echo: (args) => said(JSON.stringify(args)),
  fail: () => said('the tool has failed', true),
  error: ({ code, message, data }) => {
    throw new ProtocolError(code, message, data);
  },
  big: ({ bytes }) => said('x'.repeat(bytes)),
  progress: async ({ n }, steps) => {
    await steps(n);
    return said('done');
  },
  hold: async ({ n }, steps, signal) => {
    await steps(n);
    await new Promise((_, reject) => signal.addEventListener('abort', reject));
  },
};

serveStdio(() => {
  const server = new Server({ name: 'sluice-v2-server', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({
    tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } })),
  }));
  server.setRequestHandler('tools/call', ({ params }, { mcpReq }) => {
    const progressToken = params._meta?.progressToken;
    const steps = async (n) => {
      for (let progress = 1; progressToken !== undefined && progress <= n; progress++) {
        await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } });
      }
    };
    return tools[params.name](params.arguments ?? {}, steps, mcpReq.signal);
  });
  return server;
});
