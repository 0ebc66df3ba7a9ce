package mcptest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// A Call is a tools/call that a provider works on.
type Call struct {
	Tool   string
	ID     json.RawMessage // the provider's peer has chosen it
	Frame  json.RawMessage // as it came
	Header http.Header     // of the request; nil where the transport has none

	p         *Provider
	line      *Line
	out       sender // where everything about this call goes
	does      string
	args      arguments
	raw       json.RawMessage // the arguments as they came
	token     json.RawMessage
	responses json.RawMessage // inputResponses of a second request
	modern    bool
	cancelled chan struct{}
	release   chan struct{}
	once      struct{ cancel, release, work, end sync.Once }
	done      chan struct{}
}

// arguments are what the behaviours read of theirs.
type arguments struct {
	Key, Message, Method string
	MS, N, Bytes         int
	Code                 int64
	Data, Params         json.RawMessage
	Frames, Add, Remove  []string
	Cancel               Cancel
}

// Cancelled is closed when the peer has cancelled the call.
func (c *Call) Cancelled() <-chan struct{} { return c.cancelled }

// Result answers the call with any value and ends it.
func (c *Call) Result(v any) error {
	defer c.end()
	c.worked()
	return c.out.Send(c.result(v))
}

// Text answers the call with a text and ends it.
func (c *Call) Text(text string) error { return c.Result(c.text(text)) }

// Fail answers the call with an error and ends it.
func (c *Call) Fail(e *Error) error {
	defer c.end()
	c.worked()
	return c.out.Send(message{ID: c.ID, Error: e}.frame())
}

// Progress sends progress, if the caller has asked for any.
func (c *Call) Progress(n float64, text string) error {
	if c.token == nil {
		return nil
	}
	return c.out.Send(c.progress(n, text))
}

// Send sends frames as they are, on the stream of the call. $ID and $TOKEN in them are the
// call's ID and progress token.
func (c *Call) Send(frames ...string) error {
	fill := strings.NewReplacer("$ID", string(c.ID), "$TOKEN", string(c.token))
	var list [][]byte
	for _, f := range frames {
		list = append(list, []byte(fill.Replace(f)))
	}
	return c.out.Send(list...)
}

func (c *Call) result(v any) []byte { return message{ID: c.ID, Result: v}.frame() }

func (c *Call) progress(n float64, text string) []byte {
	params := map[string]any{"progressToken": c.token, "progress": n}
	if text != "" {
		params["message"] = text
	}
	return message{Method: "notifications/progress", Params: params}.frame()
}

// text is a result with a text, complete in the words of its era.
func (c *Call) text(text string) map[string]any {
	return c.complete(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}

func (c *Call) complete(result map[string]any) map[string]any {
	if c.modern {
		result["resultType"] = "complete"
	}
	return result
}

// cancel tells the call that its peer has cancelled it.
func (c *Call) cancel() {
	c.once.cancel.Do(func() {
		close(c.cancelled)
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		if !c.p.o.Forget {
			c.p.gone[c.args.Key] = true
		}
		c.p.changed()
	})
}

// letGo tells a held call to answer.
func (c *Call) letGo() { c.once.release.Do(func() { close(c.release) }) }

// worked notes that the work is done. Before the answer leaves: whoever gets it may let the
// next call begin before this one hears that it was sent.
func (c *Call) worked() {
	c.once.work.Do(func() {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.now[c.Tool]--
		c.p.changed()
	})
}

// end notes that nothing happens any more.
func (c *Call) end() {
	c.worked()
	c.once.end.Do(func() {
		c.line.forget(c)
		close(c.done)
	})
}

// gone returns when the call is cancelled and has to stop for it; never, if it ignores that.
func (c *Call) gone() <-chan struct{} {
	if c.policy() == Ignore {
		return nil
	}
	return c.cancelled
}

func (c *Call) policy() Cancel {
	for _, p := range []Cancel{c.args.Cancel, c.p.o.Cancel} {
		if p != "" {
			return p
		}
	}
	return Quiet
}

// stop ends a call that was cancelled.
func (c *Call) stop() error {
	if c.policy() == Answer {
		return c.Fail(&Error{Code: 0, Message: "context canceled"})
	}
	c.end()
	return nil
}

// call reads a tools/call and starts it.
func (l *Line) call(f *Frame, h http.Header, out sender) *Call {
	c := &Call{ID: f.ID, Frame: f.Raw, Header: h, p: l.p, line: l, out: out,
		cancelled: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
	var q struct {
		Name      string
		Arguments json.RawMessage
		Meta      struct {
			ProgressToken json.RawMessage
			Version       string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
		InputResponses json.RawMessage
	}
	err := json.Unmarshal(f.Params, &q)
	if err == nil && len(q.Arguments) > 0 {
		// Arguments of other types than a behaviour's own are nobody's: echo takes any.
		_ = json.Unmarshal(q.Arguments, &c.args)
	}
	c.Tool, c.raw, c.token, c.responses, c.modern = q.Name, q.Arguments, q.Meta.ProgressToken, q.InputResponses, q.Meta.Version >= modern
	c.does = l.p.behaviour(q.Name)
	if err != nil || c.does == "" || bytes.Equal(f.ID, []byte("null")) {
		close(c.done)
		_ = out.Send(message{ID: f.ID, Error: &Error{Code: -32602, Message: "Unknown tool: " + q.Name}}.frame())
		return c
	}
	l.mu.Lock()
	l.calls[string(f.ID)] = c
	l.mu.Unlock()
	if err := l.p.started(c); err != nil {
		_ = c.Fail(&Error{Code: -32603, Message: err.Error()})
		return c
	}
	go func() {
		if behaviours[c.does](c) != nil {
			c.end() // the peer has gone
		}
	}()
	return c
}

// behaviour returns what a listed tool does; empty, if it is not listed or does nothing known.
func (p *Provider) behaviour(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.tools {
		if t.Name == name {
			if t.Does == "" {
				t.Does = t.Name
			}
			if _, ok := behaviours[t.Does]; ok {
				return t.Does
			}
			return "echo" // a name that a test has made up
		}
	}
	return ""
}
