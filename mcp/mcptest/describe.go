package mcptest

import (
	"encoding/json"
	"slices"
	"strconv"
)

// A state is an answer that says what a provider is.
type state map[string]any

// describe answers everything that is no call.
func (l *Line) describe(f *Frame, out sender) {
	answer, refused := l.p.describe(f)
	if refused != nil {
		_ = out.Send(message{ID: f.ID, Error: refused}.frame())
		return
	}
	_ = out.Send(message{ID: f.ID, Result: answer}.frame())
}

func (p *Provider) describe(f *Frame) (state, *Error) {
	var q struct {
		ProtocolVersion string
		Cursor, Name    string
		URI             string
		Meta            struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(f.Params, &q) // what is missing has its own answer below
	info := state{"name": p.o.Name, "version": "1.0.0"}
	can := state{"tools": state{"listChanged": true}, "prompts": state{}, "resources": state{}, "logging": state{},
		"tasks": state{"cancel": state{}, "requests": state{"tools": state{"call": state{}}}}}
	var answer state
	switch f.Method {
	case "initialize":
		version := p.negotiate(q.ProtocolVersion)
		if version == "" {
			return nil, &Error{Code: -32601, Message: "Method not found"}
		}
		return state{"protocolVersion": version, "capabilities": can, "serverInfo": info, "instructions": "Do what the tools say."}, nil
	case "server/discover":
		if !slices.Contains(p.o.Versions, modern) {
			return nil, &Error{Code: -32601, Message: "Method not found"}
		}
		if p.rejected() {
			data, _ := json.Marshal(state{"supported": p.o.Versions, "requested": q.Meta.Version}) // which cannot fail
			return nil, &Error{Code: -32022, Message: "Unsupported protocol version", Data: data}
		}
		can["extensions"] = state{"io.modelcontextprotocol/tasks": state{}}
		answer = state{"supportedVersions": p.o.Versions, "capabilities": can, "instructions": "Do what the tools say.",
			"_meta": state{"io.modelcontextprotocol/serverInfo": info}}
	case "ping", "logging/setLevel":
		return state{}, nil
	case "tools/list":
		answer = p.list(q.Cursor)
	case "resources/list":
		answer = state{"resources": []any{state{"uri": "test://one", "name": "one"}}}
	case "resources/read":
		answer = state{"contents": []any{state{"uri": q.URI, "text": "text of " + q.URI}}}
	case "prompts/list":
		answer = state{"prompts": []any{state{"name": "one"}}}
	case "prompts/get":
		answer = state{"messages": []any{state{"role": "user", "content": state{"type": "text", "text": "prompt " + q.Name}}}}
	default:
		return nil, &Error{Code: -32601, Message: "Method not found"}
	}
	if q.Meta.Version >= modern {
		answer["resultType"] = "complete"
		if f.Method != "prompts/get" {
			answer["ttlMs"], answer["cacheScope"] = 0, "private"
		}
	}
	return answer, nil
}

// rejected says whether this question of server/discover is one of those that are refused.
func (p *Provider) rejected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.asked <= p.o.Rejects
}

// negotiate is the version of a session: the one asked for, or the newest that has sessions.
func (p *Provider) negotiate(asked string) string {
	newest := ""
	for _, v := range p.o.Versions {
		if v >= modern {
			continue
		}
		if v == asked {
			return v
		}
		if newest == "" {
			newest = v
		}
	}
	return newest
}

// list is a page of the tools. The cursor is how many came before.
func (p *Provider) list(cursor string) state {
	p.mu.Lock()
	tools := slices.Clone(p.tools)
	p.mu.Unlock()
	for i := range tools {
		tools[i].Does = ""
		if tools[i].Schema == nil {
			tools[i].Schema = json.RawMessage(`{"type":"object"}`)
		}
	}
	first, _ := strconv.Atoi(cursor) // none is the first page
	first = min(max(first, 0), len(tools))
	answer := state{"tools": tools[first:]}
	if p.o.Page > 0 && first+p.o.Page < len(tools) {
		answer = state{"tools": tools[first : first+p.o.Page], "nextCursor": strconv.Itoa(first + p.o.Page)}
	}
	return answer
}
