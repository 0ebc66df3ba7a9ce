// Package cost finds out how many calls a request really makes: the elements of a batch,
// the calls of a JSON-RPC message, the top-level fields of a GraphQL document. A batch
// that counted as one would be a way around every limit.
//
// A body is read only up to a bound, and put back for whoever reads it next.
package cost

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Extractor says what is counted.
type Extractor uint8

// The extractors. They do not look at the Content-Type: what a server makes of a body
// often does not depend on it, and the sender chooses it.
const (
	None      Extractor = iota // nothing: every request costs the same
	JSONArray                  // elements of a JSON array
	JSONRPC                    // calls of a JSON-RPC message or batch
	GraphQL                    // top-level fields of a GraphQL operation; an alias is one more
)

// Options say what a request costs. The zero Options are one call.
type Options struct {
	// Calls is what a request costs, or the least if its body is looked into; nil is 1.
	Calls *int64
	// Extractor is what is counted in the body.
	Extractor Extractor
	// Pointer (RFC 6901) leads to the array that is counted; empty is the body itself.
	// With JSONRPC it starts at a call's params and leads to the calls that a wrapping
	// tool makes: "/arguments/calls". A call that has no array there counts as one.
	Pointer string
	// Class, with JSONRPC and Pointer, leads from an element of the array to the name of
	// the tool that it calls: "/tool". Empty is the wrapping tool's own name.
	Class string
	// Methods give JSON-RPC methods and tools a weight other than 1. Nil weighs the
	// housekeeping of MCP nothing: ping, initialize and notifications. The dearest name
	// in a message is its capability.
	Methods map[string]int64
	// Max is the most that a request costs; zero is 1000.
	Max int64
	// Inspect is how many bytes of a body are looked at; zero is 64 KiB.
	Inspect int64
	// RefuseOversize says that a longer body is refused; otherwise it costs Max.
	RefuseOversize bool
}

// A Count is what a request costs.
type Count struct {
	Calls int64
	// Capability is the tool or method that is called, the dearest if there are several;
	// empty if the extractor knows none.
	Capability string
}

// Errors about a request that cannot be counted. Nothing must be debited for it.
var (
	// ErrTooLarge is a body that is longer than Inspect while RefuseOversize is set.
	ErrTooLarge = errors.New("cost: the body is too long to be counted")
	// ErrMalformed is a body that is not what the extractor counts, or whose meaning
	// depends on who reads it, such as an object with one name twice.
	ErrMalformed = errors.New("cost: the body is malformed")
	// ErrBatch is a JSON-RPC batch under an MCP revision that has none.
	ErrBatch = errors.New("cost: this revision of MCP has no batches")
)

// firstWithoutBatches is the MCP revision that removed batches.
const firstWithoutBatches = "2025-06-18"

// Check says what is wrong with o.
func (o *Options) Check() error {
	switch {
	case o.Calls != nil && *o.Calls < 0, o.Max < 0, o.Inspect < 0:
		return errors.New("cost: a cost or bound is below zero")
	case o.Extractor > GraphQL:
		return fmt.Errorf("cost: there is no extractor %d", o.Extractor)
	case o.Pointer != "" && o.Extractor != JSONArray && o.Extractor != JSONRPC:
		return errors.New("cost: only the extractors of JSON arrays and JSON-RPC use a pointer")
	case o.Class != "" && (o.Pointer == "" || o.Extractor != JSONRPC):
		return errors.New("cost: a class needs the extractor of JSON-RPC and a pointer")
	}
	for _, p := range []string{o.Pointer, o.Class} {
		if p != "" && p[0] != '/' {
			return fmt.Errorf("cost: the JSON pointer %q does not begin with a slash", p)
		}
	}
	return nil
}

// least is what a request costs before anybody looks into it.
func (o *Options) least() int64 {
	if o.Calls == nil {
		return 1
	}
	return *o.Calls
}

// max is the most that a request costs.
func (o *Options) max() int64 { return max(cmp.Or(o.Max, 1000), o.least()) }

// Of counts a body. revision is the MCP-Protocol-Version of the request, or empty. An
// empty body costs the least.
func (o *Options) Of(body []byte, revision string) (Count, error) {
	c := Count{Calls: o.least()}
	if o.Extractor == None || len(body) == 0 {
		return c, nil
	}
	var n int64
	var err error
	switch o.Extractor {
	case JSONArray:
		n, err = o.array(body)
		n = max(n, o.least())
	case GraphQL:
		n, err = fields(body)
		n = max(n, o.least())
	case JSONRPC:
		n, c.Capability, err = o.messages(body, revision)
	}
	c.Calls = min(n, o.max())
	return c, err
}

// Oversize is what a body costs that is longer than Inspect, or [ErrTooLarge].
func (o *Options) Oversize() (Count, error) {
	if o.RefuseOversize {
		return Count{}, ErrTooLarge
	}
	return Count{Calls: o.max()}, nil
}

func (o *Options) array(body []byte) (int64, error) {
	at, err := follow(body, o.Pointer)
	if err != nil || at == nil {
		return 0, err
	}
	list, err := elements(at)
	return int64(len(list)), err
}

// A message is a JSON-RPC object, as far as counting needs it.
type message struct {
	method string
	params json.RawMessage
	call   bool // it has a method; otherwise it answers one
}

// messages counts the calls of a message or batch, and finds the dearest name in it.
func (o *Options) messages(body []byte, revision string) (n int64, capability string, err error) {
	batch := []json.RawMessage{body}
	if isArray(body) {
		if revision >= firstWithoutBatches {
			return 0, "", ErrBatch
		}
		if batch, err = elements(body); err != nil {
			return 0, "", err
		}
	}
	costs := map[string]int64{}
	for _, raw := range batch {
		m, err := parseMessage(raw)
		if err != nil {
			return 0, "", err
		}
		if err := o.count(m, costs); err != nil {
			return 0, "", err
		}
	}
	for name, c := range costs {
		n += c
		if capability == "" || cmp.Or(cmp.Compare(c, costs[capability]), strings.Compare(capability, name)) > 0 {
			capability = name
		}
	}
	return n, capability, nil
}

// count adds what a message costs to costs, by the name of what it calls.
func (o *Options) count(m message, costs map[string]int64) error {
	if !m.call {
		return nil
	}
	name := m.method
	if m.method == "tools/call" {
		tool, err := follow(m.params, "/name")
		if err != nil {
			return err
		}
		if name = text(tool); name == "" {
			return ErrMalformed
		}
	}
	calls, err := follow(m.params, o.Pointer)
	if err != nil {
		return err
	}
	if o.Pointer == "" || !isArray(calls) {
		costs[name] += o.weigh(m.method, name)
		return nil
	}
	list, err := elements(calls)
	if err != nil {
		return err
	}
	if len(list) == 0 { // a wrapper around nothing is a call all the same
		costs[name] += o.weigh(m.method, name)
	}
	for _, call := range list {
		inner := name
		if o.Class != "" {
			class, err := follow(call, o.Class)
			if err != nil {
				return err
			}
			inner = cmp.Or(text(class), name)
		}
		costs[inner] += o.weigh(m.method, inner)
	}
	return nil
}

// housekeeping are the methods of MCP that keep a session alive and do no work.
var housekeeping = []string{"ping", "initialize"}

// weigh returns the weight of a call by the tool's name, else the method's.
func (o *Options) weigh(method, name string) int64 {
	if w, ok := o.Methods[name]; ok {
		return w
	}
	if w, ok := o.Methods[method]; ok {
		return w
	}
	if o.Methods == nil && (slices.Contains(housekeeping, method) || strings.HasPrefix(method, "notifications/")) {
		return 0
	}
	return 1
}
