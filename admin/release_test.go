package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestRelease(t *testing.T) {
	const release = "/actuator/mcp/release"
	const held = `{"slot":"scada","requestId":"brk-1"}`
	var asked []string
	broker := func(_ *world, o *Options) {
		o.Release = func(_ context.Context, slot, request, by string) (bool, error) {
			asked = append(asked, slot+" "+request+" "+by)
			if slot == "broken" {
				return false, errors.New("the disk is full")
			}
			return slot == "scada" && request == "brk-1", nil
		}
	}
	for _, c := range []struct {
		name, body string
		status     int
		part       string
		asked      string
	}{
		{"C-51 a call that holds slots", held, 200, `{"released":true,"slot":"scada","requestId":"brk-1","by":"admin:local","note":"`, "scada brk-1 admin:local"},
		{"C-50 C-54 another slot", `{"slot":"scada2","requestId":"brk-1"}`, 404, "holds anything", "scada2 brk-1 admin:local"},
		{"C-54 no slot", `{"requestId":"brk-1"}`, 400, "Give slot and requestId", ""},
		{"C-54 nothing", ``, 400, "not understood", ""},
		{"an unknown field", `{"slot":"scada","request":"brk-1"}`, 400, "not understood", ""},
		{"an id without end", `{"slot":"scada","requestId":"` + strings.Repeat("x", keyMax+1) + `"}`, 400, "Give slot", ""},
		{"the store fails", `{"slot":"broken","requestId":"brk-1"}`, 503, "Ask again", "broken brk-1 admin:local"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			w := newWorld(t, broker)
			w.want(c.status, c.part, "POST", release, c.body)
			if got := strings.Join(asked, ","); got != c.asked {
				t.Errorf("the broker was asked %q, want %q", got, c.asked)
			}
			if audited := strings.Contains(w.log.String(), "action=release who=local"); audited != (c.asked != "") {
				t.Errorf("the audit log has %q", w.log.String())
			}
		})
	}
	t.Run("C-52 a reader may not", func(t *testing.T) {
		asked = nil
		w := newWorld(t, func(w *world, o *Options) {
			broker(w, o)
			o.Tokens = []Token{NewToken("viewer", "see", Reader), NewToken("boss", "do", Operator)}
		})
		w.want(403, "may only read", "POST", release, held, "Authorization: Bearer see")
		w.want(401, "token is needed", "POST", release, held)
		if asked != nil {
			t.Errorf("the broker was asked: %q", asked)
		}
		w.want(200, `"by":"admin:boss"`, "POST", release, held, "Authorization: Bearer do")
	})
	t.Run("another site's page may not", func(t *testing.T) {
		newWorld(t, broker).want(403, "", "POST", release, held, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site")
	})
	t.Run("without a broker", func(t *testing.T) {
		newWorld(t, nil).want(501, "no MCP broker", "POST", release, held)
	})
}
