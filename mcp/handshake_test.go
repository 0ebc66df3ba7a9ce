package mcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestRevisionOfProvider(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       mcptest.Options
		problem string // empty: a call gets through
	}{
		{"2.3 a provider that refuses the revision is asked again with one that it offers", mcptest.Options{Rejects: 1}, ""},
		{"2.3 but once", mcptest.Options{Rejects: 2}, "provider-absent"},
		{"2.3 one without sessions", mcptest.Options{Versions: []string{"2026-07-28"}}, ""},
		{"2.3 one that offers only others", mcptest.Options{Rejects: 1, Versions: []string{"2027-01-01", "2025-06-18"}}, "provider-absent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mcptest.New(c.o)
			t.Cleanup(p.Close)
			r := newRig(t, nil, func(o *mcp.Options) {
				o.Slots = append(o.Slots, mcp.Slot{Name: "q", Dialer: inProcess(p), Protocol: "modern", RequestTimeout: time.Minute, ConnectTimeout: 300 * time.Millisecond})
			})
			f := r.client("q", "2026-07-28", nil).call("echo", `{}`, "_meta", mcptest.Meta).answer()
			if c.problem == "" && f.Error != nil {
				t.Errorf("got %s", f.Raw)
			}
			if c.problem != "" && (f.Error == nil || !strings.Contains(string(f.Raw), c.problem)) {
				t.Errorf("got %s, want %q", f.Raw, c.problem)
			}
		})
	}
}
