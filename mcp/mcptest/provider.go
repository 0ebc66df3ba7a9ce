package mcptest

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// A Cancel is what a call does that is cancelled.
type Cancel string

// What a cancelled call may do. A provider that keeps to the protocol is Quiet.
const (
	Quiet  Cancel = "quiet"  // it ends and is never answered, as the reference server in TypeScript does
	Answer Cancel = "answer" // it ends and is answered with an error of code 0, as go-sdk 1.8.0 does
	Ignore Cancel = "ignore" // it goes on as if nothing had happened
)

// Options say what a provider is like. The zero value offers a tool for each behaviour, speaks
// all versions, and is quiet after a cancel. They are plain data: a child process gets them
// in its environment.
type Options struct {
	Name     string   // in serverInfo; "mcptest" if empty
	Tools    []Tool   // nil: one for each behaviour
	Versions []string // newest first; nil: all five
	Cancel   Cancel   // Quiet if empty
	Rejects  int      // how many questions of server/discover are refused before one is answered
	Page     int      // tools in one answer to tools/list; zero: all
	Forget   bool     // calls and cancels are not kept, so that a provider may serve for ever
	Journal  string   // a file to which a line is added for each call, before it does anything; empty: none
}

// A Tool is one that a provider lists.
type Tool struct {
	Name        string          `json:"name"`
	Does        string          `json:"does,omitempty"` // the behaviour; empty: that of its name. Not listed
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema"` // nil: any object
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// A Seen is a tools/call that has reached a provider, which is to say that was executed.
type Seen struct {
	Tool string    `json:"tool"`
	Key  string    `json:"key,omitempty"` // of its arguments
	At   time.Time `json:"at"`

	Frame  json.RawMessage `json:"-"` // as it came
	Header http.Header     `json:"-"` // of the request; nil where the transport has none
}

// A Provider answers MCP requests, over as many connections as there are. It is safe for
// concurrent use.
type Provider struct {
	o Options

	mu     sync.Mutex
	tools  []Tool
	seen   []Seen
	count  map[string]int
	now    map[string]int // calls under way, by tool
	most   map[string]int
	held   map[string][]*Call
	gone   map[string]bool // keys of calls that were cancelled
	tasks  map[string]*task
	lines  map[*Line]bool
	change chan struct{} // closed and made anew whenever something has changed
	n      int
	asked  int // questions of server/discover
	closed chan struct{}
	exit   func(code int) // nil but in a child process
}

// New returns a provider. It serves once one of Serve, Handler, SSE, Socket, DialIn or
// DialMany is called.
func New(o Options) *Provider {
	p := &Provider{o: o, count: map[string]int{}, now: map[string]int{}, most: map[string]int{}, held: map[string][]*Call{}, gone: map[string]bool{},
		tasks: map[string]*task{}, lines: map[*Line]bool{}, change: make(chan struct{}), closed: make(chan struct{})}
	p.tools = o.Tools
	if o.Tools == nil {
		for _, name := range slices.Sorted(maps.Keys(behaviours)) {
			p.tools = append(p.tools, Tool{Name: name})
		}
	}
	if o.Name == "" {
		p.o.Name = "mcptest"
	}
	if o.Versions == nil {
		p.o.Versions = []string{modern, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	}
	return p
}

// modern is the first version without sessions and handshakes.
const modern = "2026-07-28"

// Close ends every call that waits for something, and every connection. Closing it again
// ends those that have been made since.
func (p *Provider) Close() {
	p.mu.Lock()
	lines := slices.Collect(maps.Keys(p.lines))
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	p.mu.Unlock()
	for _, l := range lines {
		_ = l.Close() // whatever the peer has done with it
	}
}

// Count returns how many calls of a tool were executed; of all tools, if it is empty.
func (p *Provider) Count(tool string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tool != "" {
		return p.count[tool]
	}
	n := 0
	for _, one := range p.count {
		n += one
	}
	return n
}

// Seen returns the calls that were executed, in order; none, if they are forgotten.
func (p *Provider) Seen() []Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// Most returns how many calls of a tool were under way at once, at most. A call is under
// way until it is answered, or has ended without an answer; a silent one is for ever.
func (p *Provider) Most(tool string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most[tool]
}

// Held returns a call of "hold" with a key that has not been answered, and waits for one if
// there is none. Nobody else gets it then, and it is the test's to answer.
func (p *Provider) Held(ctx context.Context, key string) (c *Call, err error) {
	err = p.until(ctx, func() bool {
		list := p.held[key]
		if len(list) == 0 {
			return false
		}
		c, p.held[key] = list[0], list[1:]
		return true
	})
	return c, err
}

// Cancelled waits until a call with a key has been cancelled, whatever it did then.
func (p *Provider) Cancelled(ctx context.Context, key string) error {
	return p.until(ctx, func() bool { return p.gone[key] })
}

// until waits for something that p.mu guards, and that changed tells of.
func (p *Provider) until(ctx context.Context, there func() bool) error {
	for {
		p.mu.Lock()
		if there() {
			p.mu.Unlock()
			return nil
		}
		change := p.change
		p.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Finish ends what goes on under a key: calls of "hold", which answer, and a task. It
// returns how many there were.
func (p *Provider) Finish(key string) int {
	p.mu.Lock()
	list, t := p.held[key], p.tasks[key]
	delete(p.held, key)
	p.mu.Unlock()
	for _, held := range list {
		held.letGo()
	}
	n := len(list)
	if t != nil && t.finish("completed") {
		n++
	}
	return n
}

// SetTools replaces the tools and tells every peer that they have changed.
func (p *Provider) SetTools(tools ...Tool) {
	p.mu.Lock()
	p.tools = slices.Clone(tools)
	p.mu.Unlock()
	p.Notify("notifications/tools/list_changed", nil)
}

// Notify sends a notification to every peer. Nil params are left out.
func (p *Provider) Notify(method string, params any) {
	p.mu.Lock()
	lines := slices.Collect(maps.Keys(p.lines))
	p.mu.Unlock()
	for _, l := range lines {
		_ = l.Notify(method, params) // who has gone is not told
	}
}

// started notes a call that is about to do something.
func (p *Provider) started(c *Call) error {
	s := Seen{Tool: c.Tool, Key: c.args.Key, At: time.Now(), Frame: c.Frame, Header: c.Header}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[c.Tool]++
	if !p.o.Forget {
		p.seen = append(p.seen, s)
	}
	p.now[c.Tool]++
	p.most[c.Tool] = max(p.most[c.Tool], p.now[c.Tool])
	p.changed()
	if p.o.Journal == "" {
		return nil
	}
	return appendLine(p.o.Journal, s)
}

// changed wakes who waits. p.mu is held.
func (p *Provider) changed() {
	close(p.change)
	p.change = make(chan struct{})
}

// Journal reads the calls that providers have noted in a file, in order. A file that is not
// there is an empty one.
func Journal(path string) ([]Seen, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Seen
	for d := json.NewDecoder(f); d.More(); {
		var s Seen
		if err := d.Decode(&s); err != nil {
			return list, err
		}
		list = append(list, s)
	}
	return list, nil
}

// appendLine adds a line in one write, so that several processes may share a file.
func appendLine(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return err
}
