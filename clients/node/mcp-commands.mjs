// What the two MCP clients share: a line on stdin is a command, a line on stdout says how it went.
//
//   {"list": true}                                     the names of the tools
//   {"call": "echo", "arguments": {…}}                 a tool's answer
//   {"call": "…", "arguments": {…}, "cancelAfter": 2}  cancelled once so much progress has come
import { createInterface } from 'node:readline';

// callTool takes the parameters of a call and its options.
export async function run(client, callTool) {
  process.stdout.write(JSON.stringify({ version: client.transport.protocolVersion ?? '' }) + '\n');
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    const done = command.list ? list(client) : call(callTool, command);
    process.stdout.write(JSON.stringify(await done.catch(failure)) + '\n');
  }
  await client.close();
  process.exit(0);
}

async function list(client) {
  const names = [];
  let cursor;
  do {
    const page = await client.listTools(cursor && { cursor });
    names.push(...page.tools.map((t) => t.name));
    cursor = page.nextCursor;
  } while (cursor);
  return { tools: names.sort() };
}

async function call(callTool, { call: name, arguments: args, cancelAfter }) {
  const progress = [];
  const stop = new AbortController();
  const onprogress = (p) => {
    progress.push(p.progress);
    if (progress.length === cancelAfter) stop.abort('enough');
  };
  try {
    const answer = await callTool({ name, arguments: args ?? {} }, { signal: stop.signal, timeout: 60_000, onprogress });
    const text = answer.content.map((c) => c.text ?? '').join('');
    return { text, isError: answer.isError ?? false, structured: answer.structuredContent, progress };
  } catch (e) {
    return { ...(await failure(e)), progress, cancelled: stop.signal.aborted };
  }
}

async function failure(e) {
  return { error: { code: Number.isInteger(e.code) ? e.code : 0, message: String(e.message ?? e), data: e.data } };
}
