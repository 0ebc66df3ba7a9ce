package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestM093SameKey(t *testing.T) {
	c := New(Options{})
	const as = `{"a":1,"b":{"x":"é","y":[1,2]}}`
	for _, x := range []struct {
		name, arguments string
		same            bool
	}{
		{"the same", as, true},
		{"M-093 order of members", `{"b":{"y":[1,2],"x":"é"},"a":1}`, true},
		{"M-093 blanks and escapes", ` { "a" : 1, "b":{"x":"\u00e9","\u0079":[ 1,2]} }`, true},
		{"order of elements", `{"a":1,"b":{"x":"é","y":[2,1]}}`, false},
		{"M-093 1 and 1.0", `{"a":1.0,"b":{"x":"é","y":[1,2]}}`, false},
		{"text for a number", `{"a":"1","b":{"x":"é","y":[1,2]}}`, false},
		{"one member more", `{"a":1,"b":{"x":"é","y":[1,2]},"c":null}`, false},
		{"a colon in text", `{"a":1,"b":{"x":"é:","y":[1,2]}}`, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := c.Key(ask(x.arguments)) == c.Key(ask(as)); got != x.same {
				t.Errorf("same key: %v, want %v", got, x.same)
			}
		})
	}
	t.Run("M-093 numbers beyond 2^53", func(t *testing.T) {
		if c.Key(ask(`{"a":9007199254740992}`)) == c.Key(ask(`{"a":9007199254740993}`)) {
			t.Error("2^53 and 2^53+1 share a key")
		}
	})
}

func TestM093WhoAndWhere(t *testing.T) {
	c := New(Options{})
	base := ask(`{"a":1}`)
	change := func(f func(*Call)) Call {
		x := base
		f(&x)
		return x
	}
	seen := map[digest]string{c.Key(base).digest: "the call"}
	for name, x := range map[string]Call{
		"M-093 another slot":             change(func(x *Call) { x.Slot = "other" }),
		"M-093 another tool":             change(func(x *Call) { x.Tool = "other" }),
		"M-093 another subject":          change(func(x *Call) { x.Scope = Subject("user:bob") }),
		"M-093 a scope of that name":     change(func(x *Call) { x.Scope = Shared("user:ann") }),
		"M-093 another scope":            change(func(x *Call) { x.Scope = Shared("") }),
		"a subject without a name":       change(func(x *Call) { x.Scope = Subject("") }),
		"slot and tool cut elsewhere":    change(func(x *Call) { x.Slot, x.Tool = "weatherw", "eather" }),
		"no arguments":                   change(func(x *Call) { x.Params = json.RawMessage(`{"name":"weather"}`) }),
		"other arguments":                ask(`{"a":2}`),
		"arguments that are null":        ask(`null`),
		"arguments that look like a key": ask(`"user:ann"`),
	} {
		k := c.Key(x)
		if k.IsZero() {
			t.Errorf("%s: no key", name)
		}
		if other, ok := seen[k.digest]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k.digest] = name
	}
	x := base
	x.Params = json.RawMessage(`{"_meta":{"progressToken":7},"arguments":{"a":1},"name":"prefix-weather"}`)
	if c.Key(x) != c.Key(base) {
		t.Error("_meta or the name that a client uses changes the key")
	}
}

func TestNoKey(t *testing.T) {
	c := New(Options{})
	for name, params := range map[string]string{
		"M-094 an answer to a question":   `{"name":"w","arguments":{},"inputResponses":{}}`,
		"M-094 state of a question":       `{"name":"w","arguments":{},"requestState":"x"}`,
		"M-094 a task":                    `{"name":"w","arguments":{},"task":{"ttl":1}}`,
		"a member that nobody knows":      `{"name":"w","arguments":{},"locale":"de"}`,
		"M-028 a member twice":            `{"name":"w","arguments":{"a":{"x":1,"x":2}}}`,
		"M-028 the same escaped":          `{"name":"w","arguments":{"a":{"x":1,"\u0078":2}}}`,
		"half a pair":                     `{"name":"w","arguments":{"a":"\ud800"}}`,
		"half a pair in a name":           `{"name":"w","arguments":{"\udc00":1}}`,
		"more than 64 KiB":                `{"name":"w","arguments":{"a":"` + strings.Repeat("x", mostParams) + `"}}`,
		"no object":                       `[]`,
		"no JSON":                         `{"name"`,
		"bytes that are no UTF-8":         "{\"arguments\":\"\xff\"}",
		"null, of which nothing is known": `{"name":"w","arguments":{},"x":null}`,
	} {
		call := ask(`{}`)
		call.Params = json.RawMessage(params)
		if !c.Key(call).IsZero() {
			t.Errorf("%s: it has a key", name)
		}
	}
	nobodys := ask(`{}`)
	nobodys.Scope = Scope{}
	k := c.Key(nobodys)
	if !k.IsZero() || c.Put(k, json.RawMessage(answer), 1e9) {
		t.Error("M-093 a result is kept for nobody")
	}
	if _, ok := c.Get(k); ok {
		t.Error("the zero Key has a result")
	}
}

func TestKeysTellNothing(t *testing.T) {
	call := ask(`{"card":"4111111111111111"}`)
	k := New(Options{}).Key(call)
	if k.digest == New(Options{}).Key(call).digest {
		t.Error("two processes make the same key: it can be guessed from arguments")
	}
	if s := fmt.Sprintf("%s%v", k.digest[:], k); bytes.Contains([]byte(s), []byte("4111")) {
		t.Error("the key has text of the arguments")
	}
}

// FuzzKey shows that calls with one key ask for the same thing.
func FuzzKey(f *testing.F) {
	f.Add(`{"a":1,"b":2}`, `{"b":2,"a":1}`)
	f.Add(`{"a":1,"a":2}`, `{"a":2}`)
	f.Add(`{"a":1e400}`, `{"a":"\ud800"}`)
	c := New(Options{})
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, kb := c.Key(ask(a)), c.Key(ask(b))
		if ka.IsZero() || ka != kb {
			return
		}
		var va, vb any
		if json.Unmarshal([]byte(a), &va) != nil || json.Unmarshal([]byte(b), &vb) != nil {
			return // numbers that no float holds
		}
		if fmt.Sprintf("%#v", va) != fmt.Sprintf("%#v", vb) {
			t.Errorf("%s and %s have the same key", a, b)
		}
	})
}
