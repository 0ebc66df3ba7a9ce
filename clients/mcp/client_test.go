package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client is a client of the protocol that is connected.
type client interface {
	// do carries a command out. What goes wrong in a call is in the reply; what goes wrong
	// around it ends the test.
	do(t *testing.T, c command) reply
}

// A command is what a client is told to do, in the words of ../node/mcp-commands.mjs.
type command struct {
	List        bool            `json:"list,omitempty"`
	Call        string          `json:"call,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	CancelAfter int             `json:"cancelAfter,omitempty"`
}

// A reply is what a client got.
type reply struct {
	Version    string // of the protocol, in the first reply of a script
	Tools      []string
	Text       string
	IsError    bool
	Structured json.RawMessage
	Progress   []float64
	Cancelled  bool
	Error      *failure
}

// A failure is an error of the protocol, as a client tells it.
type failure struct {
	Code    int64
	Message string
	Data    json.RawMessage
}

// A target is where a client finds a server.
type target struct {
	http, sse, websocket string   // addresses
	stdio                []string // a command
	header               []string // name and value, in turns
}

// A kind is a client over a transport.
type kind struct {
	name     string
	connect  func(t *testing.T, to target) client
	listOnly bool // a program that is started for each command, and tells no more than its text
	isModern bool // 2026-07-28
}

// kinds are all clients over all their transports.
var kinds = []kind{
	{name: "TypeScript v1 over HTTP", connect: script("mcp-v1.mjs", "http")},
	{name: "TypeScript v1 over SSE", connect: script("mcp-v1.mjs", "sse")},
	{name: "TypeScript v1 over WebSocket", connect: script("mcp-v1.mjs", "websocket")},
	{name: "TypeScript v1 over stdio", connect: script("mcp-v1.mjs", "stdio")},
	{name: "TypeScript v2 over HTTP", connect: script("mcp-v2.mjs", "legacy", "http")},
	{name: "TypeScript v2 over HTTP 2026-07-28", connect: script("mcp-v2.mjs", "2026-07-28", "http"), isModern: true},
	{name: "TypeScript v2 over stdio", connect: script("mcp-v2.mjs", "legacy", "stdio")},
	{name: "TypeScript v2 over stdio 2026-07-28", connect: script("mcp-v2.mjs", "2026-07-28", "stdio"), isModern: true},
	{name: "go-sdk over HTTP", connect: goSDK("http", "2025-11-25")},
	{name: "go-sdk over HTTP 2026-07-28", connect: goSDK("http", "2026-07-28"), isModern: true},
	{name: "go-sdk over SSE", connect: goSDK("sse", "2025-11-25")},
	{name: "go-sdk over stdio", connect: goSDK("stdio", "2025-11-25")},
	{name: "Inspector over HTTP", connect: inspector("http"), listOnly: true},
	{name: "Inspector over stdio", connect: inspector("stdio"), listOnly: true},
}

// at are the words that say where the target is, for a script.
func (to target) at(transport string) []string {
	return map[string][]string{"http": append([]string{to.http}, to.header...), "sse": append([]string{to.sse}, to.header...),
		"websocket": {to.websocket}, "stdio": to.stdio}[transport]
}

// A scripted client is a process that reads commands.
type scripted struct {
	in  *json.Encoder
	out *bufio.Reader
}

// script connects with one of the programs in ../node. The last word is the transport.
func script(file string, words ...string) func(t *testing.T, to target) client {
	return func(t *testing.T, to target) client {
		transport := words[len(words)-1]
		cmd := exec.Command(node(t), slices.Concat([]string{nodeFile(file)}, words, to.at(transport))...)
		in, out := begin(t, cmd)
		s := &scripted{json.NewEncoder(in), bufio.NewReader(out)}
		s.next(t) // it is connected
		return s
	}
}

func (s *scripted) do(t *testing.T, c command) reply {
	t.Helper()
	if err := s.in.Encode(c); err != nil {
		t.Fatal(err)
	}
	return s.next(t)
}

func (s *scripted) next(t *testing.T) (r reply) {
	t.Helper()
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatalf("%v after %.200s", err, line)
	}
	return r
}

// A goClient is go-sdk's.
type goClient struct {
	session  *sdk.ClientSession
	progress chan *sdk.ProgressNotificationParams
	calls    int
}

func goSDK(transport, version string) func(t *testing.T, to target) client {
	return func(t *testing.T, to target) client {
		g := &goClient{progress: make(chan *sdk.ProgressNotificationParams, 100)}
		c := sdk.NewClient(&sdk.Implementation{Name: "sluice-go", Version: "1"}, &sdk.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
				g.progress <- r.Params
			}})
		var over sdk.Transport
		switch transport {
		case "http":
			over = &sdk.StreamableClientTransport{Endpoint: to.http, HTTPClient: withHeader(to.header)}
		case "sse":
			over = &sdk.SSEClientTransport{Endpoint: to.sse, HTTPClient: withHeader(to.header)}
		case "stdio":
			cmd := exec.Command(to.stdio[0], to.stdio[1:]...)
			cmd.Stderr = t.Output()
			over = &sdk.CommandTransport{Command: cmd}
		}
		session, err := c.Connect(bounded(t), over, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		g.session = session
		return g
	}
}

func (g *goClient) do(t *testing.T, c command) reply {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	if c.List {
		return g.list(t, ctx)
	}
	g.calls++
	token := fmt.Sprintf("call-%d", g.calls)
	q := &sdk.CallToolParams{Name: c.Call, Arguments: c.Arguments}
	q.SetProgressToken(token)
	var r reply
	note := func(p *sdk.ProgressNotificationParams) {
		// go-sdk may tell of progress after the answer, to a call that is not concerned.
		if p.ProgressToken == token {
			r.Progress = append(r.Progress, p.Progress)
		}
	}
	enough := make(chan struct{})
	go func() {
		defer close(enough)
		for c.CancelAfter > 0 && len(r.Progress) < c.CancelAfter {
			select {
			case p := <-g.progress:
				note(p)
			case <-ctx.Done():
				return
			}
		}
		if c.CancelAfter > 0 {
			r.Cancelled = true
			cancel()
		}
	}()
	answer, err := g.session.CallTool(ctx, q)
	cancel()
	<-enough
	for len(g.progress) > 0 {
		note(<-g.progress)
	}
	if err != nil {
		r.Error = &failure{Message: err.Error()}
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			r.Error = &failure{e.Code, e.Message, e.Data}
		}
		return r
	}
	for _, content := range answer.Content {
		if text, ok := content.(*sdk.TextContent); ok {
			r.Text += text.Text
		}
	}
	r.IsError = answer.IsError
	return r
}

func (g *goClient) list(t *testing.T, ctx context.Context) (r reply) {
	t.Helper()
	for tool, err := range g.session.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		r.Tools = append(r.Tools, tool.Name)
	}
	slices.Sort(r.Tools)
	return r
}

// An inspected client is the Inspector's command, started anew each time.
type inspected struct {
	transport string
	to        target
}

func inspector(transport string) func(t *testing.T, to target) client {
	return func(t *testing.T, to target) client { return &inspected{transport, to} }
}

func (i *inspected) do(t *testing.T, c command) (r reply) {
	t.Helper()
	words := append([]string{nodeFile("node_modules/.bin/inspector"), "--cli"}, i.to.at(i.transport)[:1]...)
	if i.transport == "stdio" {
		words = slices.Concat(words[:2], i.to.stdio)
	} else {
		words = append(words, "--transport", "http")
	}
	for n := 0; i.transport == "http" && n+1 < len(i.to.header); n += 2 {
		words = append(words, "--header", i.to.header[n]+": "+i.to.header[n+1])
	}
	if c.List {
		words = append(words, "--method", "tools/list")
	} else {
		words = append(words, "--method", "tools/call", "--tool-name", c.Call)
		var pairs map[string]json.RawMessage
		if err := json.Unmarshal(c.Arguments, &pairs); err != nil {
			t.Fatal(err)
		}
		for name, value := range pairs {
			words = append(words, "--tool-arg", name+"="+strings.Trim(string(value), `"`))
		}
	}
	cmd := exec.CommandContext(bounded(t), node(t), words...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // where it keeps a catalogue
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	var said struct {
		Tools   []struct{ Name string }
		Content []struct{ Text string }
		IsError bool
	}
	if e := json.Unmarshal(out, &said); e != nil {
		r.Error = &failure{Message: string(out)}
		if err == nil {
			t.Errorf("%v in %.200s", e, out)
		}
		return r
	}
	for _, tool := range said.Tools {
		r.Tools = append(r.Tools, tool.Name)
	}
	for _, content := range said.Content {
		r.Text += content.Text
	}
	slices.Sort(r.Tools)
	r.IsError = said.IsError
	return r
}

// bounded ends what hangs.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// begin starts a process that ends with its stdin, at the end of the test.
func begin(t *testing.T, cmd *exec.Cmd) (io.Writer, io.Reader) {
	t.Helper()
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // what it did is known
		late.Stop()
	})
	return in, out
}
