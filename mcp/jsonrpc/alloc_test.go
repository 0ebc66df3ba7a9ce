//go:build !race

package jsonrpc

import (
	"encoding/json"
	"testing"
)

// TestAllocations is not for the race detector, which allocates by itself.
func TestAllocations(t *testing.T) {
	small, large := []byte(smallFrame), frames()["objects"]
	m := mustParse(t, smallFrame)
	id, token := StringID("brk-5c1b-1"), json.RawMessage(`"brk-5c1b-1"`)
	for _, c := range []struct {
		name string
		most float64
		f    func()
	}{
		{"Parse: message, id, method, places of members", 4, func() { mustParseBytes(t, small) }},
		{"Parse a frame of megabytes: no more", 4, func() { mustParseBytes(t, large) }},
		{"Edit: message, frame, id and its bytes, two paths", 6, func() {
			m.Edit(SetID(id), Set(token, "params", "_meta", "progressToken"))
		}},
		{"Lookup", 0, func() { m.Param("_meta", "progressToken") }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}

func mustParseBytes(t *testing.T, frame []byte) {
	if _, err := Parse(frame, Bounds{}); err != nil {
		t.Fatal(err)
	}
}
