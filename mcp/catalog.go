package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
	"github.com/sluicegate/sluice/mcp/schema"
)

// Bounds of a provider's list of tools.
const (
	maxTools   = 10_000
	maxPages   = 200
	maxListed  = 16 << 20 // bytes of all pages
	listTime   = 5 * time.Second
	settleTime = 250 * time.Millisecond // changes that follow each other so soon are one
)

// A catalog is a provider's tools as it has last listed them. It never changes; the nil
// catalog is that of a provider that was not heard.
type catalog struct {
	supported bool
	err       error
	tools     []*tool
	byName    map[string]*tool
	ttl       *int64        // in milliseconds; nil if the provider does not say how long the list holds
	twice     []string      // names that were listed twice; the first counts
	unfit     []ToolProblem // tools that must not be offered
	listed    int           // tools in all pages, with those that are none
	bytes     int           // of all pages
}

// A tool is one tool, byte for byte as its provider describes it.
type tool struct {
	name     string
	raw      json.RawMessage
	sum      [sha256.Size]byte // of raw
	readOnly bool

	once    sync.Once
	schema  *schema.Schema
	problem *schema.Problem
}

func (l *catalog) known() bool { return l != nil && l.err == nil && l.supported }

func (l *catalog) tool(name string) *tool {
	if l == nil {
		return nil
	}
	return l.byName[name]
}

func (l *catalog) count() int {
	if l == nil {
		return 0
	}
	return len(l.tools)
}

// nameOr returns the tool's name, or other for a tool that the broker does not know.
func (t *tool) nameOr(other string) string {
	if t == nil {
		return other
	}
	return t.name
}

// compiled returns the tool's schema; nil if it has none that can be used.
func (t *tool) compiled() (*schema.Schema, *schema.Problem) {
	t.once.Do(func() {
		if raw, ok := jsonrpc.Lookup(t.raw, "inputSchema"); ok {
			t.schema, t.problem = schema.Compile(raw)
		}
	})
	return t.schema, t.problem
}

// check says what is wrong with arguments, or nothing.
func (t *tool) check(arguments json.RawMessage) string {
	s, _ := t.compiled()
	if s == nil {
		return ""
	}
	if m := s.Validate(arguments); m != nil {
		return m.String()
	}
	return ""
}

// list asks the provider for all its tools. Of one that does not answer in time nothing is
// known, and its calls are passed on unchecked.
func (k *conn) list(ctx context.Context) *catalog {
	l := &catalog{byName: map[string]*tool{}, supported: k.hello.has("tools")}
	if !l.supported {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(k.slot.b.settings().ListTimeout, listTime))
	defer cancel()
	var cursor json.RawMessage
	for range maxPages {
		params := map[string]any{}
		if meta := k.ourMeta(); meta != nil {
			params["_meta"] = meta
		}
		if cursor != nil {
			params["cursor"] = cursor
		}
		m, err := k.ask(ctx, "tools/list", params)
		if err == nil {
			err = failure(m)
		}
		if err == nil {
			cursor, err = l.page(m.Result)
		}
		if err != nil {
			l.err = err
			return l
		}
		if cursor == nil {
			if protocol.EraOf(k.hello.version) == protocol.Modern && !k.link.Shared() {
				l.dropUnfit()
			}
			return l
		}
	}
	l.err = errors.New("mcp: the list of tools has no end")
	return l
}

// page takes one page in, and returns the cursor of the next.
func (l *catalog) page(raw json.RawMessage) (json.RawMessage, error) {
	if l.bytes += len(raw); l.bytes > maxListed {
		return nil, errors.New("mcp: the provider's list of tools has more than 16 MiB")
	}
	var page struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor json.RawMessage   `json:"nextCursor"`
		TTLMs      json.RawMessage   `json:"ttlMs"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, errors.New("mcp: the list of tools is none")
	}
	if l.listed += len(page.Tools); l.listed > maxTools {
		return nil, errors.New("mcp: the provider lists more than 10000 tools")
	}
	if ttl, err := strconv.ParseInt(string(page.TTLMs), 10, 64); err == nil && ttl >= 0 && (l.ttl == nil || ttl < *l.ttl) {
		l.ttl = &ttl
	}
	for _, raw := range page.Tools {
		var t struct {
			Name        string `json:"name"`
			Annotations struct {
				ReadOnlyHint bool `json:"readOnlyHint"`
			} `json:"annotations"`
		}
		if json.Unmarshal(raw, &t) != nil || t.Name == "" {
			continue
		}
		if l.byName[t.Name] != nil {
			l.twice = append(l.twice, t.Name)
			continue
		}
		entry := &tool{name: t.Name, raw: raw, sum: sha256.Sum256(raw), readOnly: t.Annotations.ReadOnlyHint}
		l.tools = append(l.tools, entry)
		l.byName[t.Name] = entry
	}
	if string(page.NextCursor) == "null" || string(page.NextCursor) == `""` || len(page.NextCursor) == 0 {
		return nil, nil
	}
	return page.NextCursor, nil
}

// dropUnfit takes out the tools whose schemas say wrongly which arguments travel in headers:
// over HTTP of the newest revision they must not be offered (2026-07-28,
// basic/transports/streamable-http, "Custom Headers from Tool Parameters").
func (l *catalog) dropUnfit() {
	l.tools = slices.DeleteFunc(l.tools, func(t *tool) bool {
		if !bytes.Contains(t.raw, []byte("x-mcp-header")) {
			return false
		}
		s, _ := t.compiled()
		if s == nil {
			return false
		}
		_, problem := s.Headers()
		if problem == nil {
			return false
		}
		l.unfit = append(l.unfit, ToolProblem{t.name, "not offered: " + problem.String()})
		delete(l.byName, t.name)
		return true
	})
}

// offers reports whether the operator lets a tool be offered.
func (sl *slot) offers(name string) bool {
	only := sl.conf().Tools
	return only == nil || slices.Contains(only, name)
}

// same reports whether two lists say the same.
func (l *catalog) same(o *catalog) bool {
	if l == nil || o == nil {
		return l == o
	}
	return l.supported == o.supported && slices.EqualFunc(l.tools, o.tools, func(a, b *tool) bool { return bytes.Equal(a.raw, b.raw) })
}

// show makes l what clients see, and tells those for whom something has changed. A
// provider that could not be heard keeps the list it had.
func (sl *slot) show(l *catalog) {
	before := sl.tools.Load()
	if l.err != nil && before.known() {
		sl.b.log.Warn("mcp: a provider did not list its tools; the last list stays", "slot", sl.name, "error", l.err)
		return
	}
	if before.same(l) {
		return
	}
	sl.tools.Store(l)
	sl.b.cache.Drop(sl.name)
	if before != nil {
		sl.b.sessions.toolsChanged(sl)
	}
}

// changed is the provider's word that its tools have changed: they are listed again once
// it is silent for a moment.
func (sl *slot) changed(k *conn) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.relisting != nil {
		sl.relisting.Reset(settleTime)
		return
	}
	sl.relisting = time.AfterFunc(settleTime, func() {
		sl.mu.Lock()
		sl.relisting = nil
		current := sl.current == k
		sl.mu.Unlock()
		if current {
			sl.show(k.list(sl.b.ctx))
		}
	})
}

// headers are those that mirror arguments of a tool for the newest revision.
func (sl *slot) headers(m *jsonrpc.Message) map[string][]string {
	if m.Method != "tools/call" {
		return nil
	}
	raw, _ := m.Param("name")
	name, _ := jsonrpc.Text(raw)
	t := sl.tools.Load().tool(name)
	if t == nil {
		return nil
	}
	s, _ := t.compiled()
	arguments, _ := m.Param("arguments")
	return mirrored(s, arguments)
}

// mirrored are the arguments that a schema wants in headers.
func mirrored(s *schema.Schema, arguments json.RawMessage) map[string][]string {
	if s == nil {
		return nil
	}
	list, _ := s.Headers()
	var h map[string][]string
	for _, p := range list {
		if text, ok := p.Value(arguments); ok {
			if h == nil {
				h = map[string][]string{}
			}
			h[p.Name] = []string{protocol.EncodeHeader(text)}
		}
	}
	return h
}
