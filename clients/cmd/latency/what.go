package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A subject is what is measured: a provider, what stands in front of it, and what is asked of it.
type subject struct {
	provider []string // sluice's arguments that start it; its address follows
	file     string   // the configuration, with the addresses of listener, administration and provider
	base     string   // below the provider's address
	front    string   // below sluice's
	loads    []load
}

// A load is one row.
type load struct {
	name string
	rate int // requests a second
	path string
	body string
	head map[string]string
	// open returns a header more that a client needs, once for each side; nil needs none.
	open func(client *http.Client, url string) (name, value string, err error)
}

var subjects = map[string]*subject{
	"llm": {[]string{"mock-llm", "--plan", "mock:output=64,chunks=64", "--listen"}, gatewayFile, "/v1", "/v1", chats()},
	"mcp": {[]string{"mock-mcp", "--listen"}, brokerFile, "", "/plant", calls()},
}

// gatewayFile has limits that are counted and never reached.
const gatewayFile = `
listen: {llm: %q, admin: %q}
llm:
  anonymous: true
  providers:
    mock: {baseUrl: "http://%s/v1", requestsPerMinute: 100000000, tokensPerMinute: 100000000000, maxConcurrentCalls: 10000}
  tenants: {requestsPerMinute: 100000000, tokensPerMinute: 100000000000}
`

// brokerFile does too.
const brokerFile = `
listen: {mcp: %q, admin: %q}
mcp:
  slots:
    - {slot: plant, url: "http://%s/mcp"}
limits:
  rules:
    - {id: all, rate: {max: 1000000, windowMs: 1000}, concurrency: 10000}
    - {id: each, groupBy: [subject, provider, capability], rate: {max: 1000000, windowMs: 1000}}
`

// chats are requests to a language model, with bodies of some size, streamed or not.
func chats() (list []load) {
	for _, size := range []struct{ bytes, rate int }{{200, 200}, {20_000, 200}, {400_000, 40}} {
		for _, kind := range []string{"whole", "64 pieces"} {
			head := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"`, kind != "whole")
			list = append(list, load{name: fmt.Sprintf("%d B, %s", size.bytes, kind), rate: size.rate, path: "/chat/completions",
				body: head + words(size.bytes-len(head)-4) + `"}]}`})
		}
	}
	return list
}

// calls are calls of a tool in both eras, with arguments and results of some size.
func calls() (list []load) {
	for _, size := range []struct{ bytes, rate int }{{200, 200}, {20_000, 200}, {400_000, 40}} {
		arguments := fmt.Sprintf(`{"text":%q}`, words(size.bytes))
		list = append(list,
			load{name: fmt.Sprintf("%d B there and back, 2025-11-25", size.bytes), rate: size.rate, path: "/mcp",
				body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + arguments + `}}`,
				head: map[string]string{"MCP-Protocol-Version": "2025-11-25"}, open: session},
			load{name: fmt.Sprintf("%d B there and back, 2026-07-28", size.bytes), rate: size.rate, path: "/mcp",
				body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + arguments + `,"_meta":` + meta + `}}`,
				head: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}})
	}
	return list
}

// meta is what every request of 2026-07-28 says.
const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// words are n bytes of text.
func words(n int) string {
	const words = "What the quick brown fox said to the lazy dog was not written down. "
	return strings.Repeat(words, max(n, 0)/len(words)+1)[:max(n, 0)]
}

// session begins one.
func session(client *http.Client, url string) (name, value string, err error) {
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"latency","version":"1"}}}`
	q, err := http.NewRequest(http.MethodPost, url, strings.NewReader(hello))
	if err != nil {
		return "", "", err
	}
	accepts(q)
	answer, err := client.Do(q)
	if err != nil {
		return "", "", err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return "", "", err
	}
	return "Mcp-Session-Id", answer.Header.Get("Mcp-Session-Id"), nil
}

func accepts(q *http.Request) {
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
}
