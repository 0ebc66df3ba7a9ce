package protocol

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/wire"
)

func TestTable(t *testing.T) {
	for _, c := range []struct {
		name           string
		situation      Situation
		legacy, modern outcome
	}{
		{"D12 C-33 refused", Refused, outcome{-32029, 200}, outcome{429, 200}},
		{"C-105 forbidden", Forbidden, outcome{-32001, 200}, outcome{403, 200}},
		{"C-105 unavailable", Unavailable, outcome{-32000, 200}, outcome{-32603, 200}},
		{"M-086 unknown tool", UnknownTool, outcome{-32602, 200}, outcome{-32602, 200}},
		{"bad arguments", BadArguments, outcome{-32602, 200}, outcome{-32602, 200}},
		{"C-105 unknown method", UnknownMethod, outcome{-32601, 200}, outcome{-32601, 404}},
		{"M-057 header mismatch", HeaderMismatch, outcome{-32600, 400}, outcome{-32020, 400}},
		{"missing capability", MissingCapability, outcome{-32600, 200}, outcome{-32021, 400}},
		{"unsupported version", UnsupportedVersion, outcome{-32602, 400}, outcome{-32022, 400}},
		{"M-045 session not found", SessionNotFound, outcome{-32001, 404}, outcome{404, 404}},
		{"C-60 C-105 not declared", NotDeclared, outcome{-32003, 200}, outcome{403, 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range append(Versions(), "", "2099-01-01") {
				want := c.legacy
				if EraOf(v) == Modern {
					want = c.modern
				}
				e, status := Default().Error(c.situation, v, "said", map[string]any{"reason": "<why>"})
				if (outcome{e.Code, status}) != want {
					t.Errorf("at %q it is %d with %d, want %v", v, e.Code, status, want)
				}
				if e.Message != "said" || string(e.Data) != `{"reason":"<why>"}` || !e.ID.IsZero() {
					t.Errorf("at %q it is %+v", v, e)
				}
			}
			if e, _ := Default().Error(c.situation, "", "said", nil); e.Data != nil {
				t.Errorf("without data it has %s", e.Data)
			}
		})
	}
}

// TestNoCodeOfTheSpecification is M-106.
func TestNoCodeOfTheSpecification(t *testing.T) {
	// The codes that the specification defines, and what each means, written down here once
	// more: the test must not believe the table.
	defined := map[Situation]int64{HeaderMismatch: -32020, MissingCapability: -32021, UnsupportedVersion: -32022}
	table := Default()
	for code := int64(-33000); code < -31900; code++ {
		taken := code <= -32020 && code >= -32099 || code == -32002
		if next, err := table.With(Modern, code, 0); (err != nil) != taken {
			t.Fatalf("M-106 code %d in settings: %v", code, err)
		} else if err == nil {
			table = next
		}
		for s := range situations {
			e, _ := table.Error(s, V20260728, "", nil)
			if want, ok := defined[s]; ok && e.Code != want || !ok && e.Code <= -32020 && e.Code >= -32099 {
				t.Fatalf("M-106 situation %d is code %d", s, e.Code)
			}
		}
		for _, from := range Versions() {
			passed, _ := Passed(code, from, V20260728)
			if passed <= -32023 && passed >= -32099 || passed == -32002 || EraOf(from) == Legacy && passed <= -32020 && passed >= -32022 {
				t.Fatalf("M-106 a provider's %d at %s is passed on as %d", code, from, passed)
			}
		}
	}
}

func TestPassed(t *testing.T) {
	for _, c := range []struct {
		code     int64
		from, to string
		want     outcome
	}{
		{-32602, V20241105, V20260728, outcome{-32602, 200}},
		{-32601, V20251125, V20260728, outcome{-32601, 404}},
		{-32601, V20260728, V20251125, outcome{-32601, 200}},
		{-32002, V20251125, V20260728, outcome{-32602, 200}},
		{-32042, V20251125, V20260728, outcome{-32603, 200}},
		{-32029, V20260728, V20260728, outcome{-32603, 200}},
		{-32021, V20260728, V20260728, outcome{-32021, 400}},
		{-32021, V20251125, V20260728, outcome{-32603, 200}},
		{-32021, V20260728, V20251125, outcome{-32021, 200}},
		{-32042, V20251125, V20251125, outcome{-32042, 200}},
		{-32000, V20251125, V20260728, outcome{-32000, 200}},
		{42, V20260728, V20260728, outcome{42, 200}},
	} {
		if code, status := Passed(c.code, c.from, c.to); (outcome{code, status}) != c.want {
			t.Errorf("M-106 %d from %s to %s: %d with %d, want %v", c.code, c.from, c.to, code, status, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	if _, err := Default().With(Legacy, -32029, 0); err != nil {
		t.Errorf("C-33 the seed's own code in its own era: %v", err)
	}
	legacy, err := Default().With(Legacy, -32010, 0)
	if err != nil {
		t.Fatal(err)
	}
	both, err := legacy.With(Modern, 0, 429)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		table   *Table
		version string
		want    outcome
	}{
		{"code", both, V20251125, outcome{-32010, 200}},
		{"C-W24 status", both, V20260728, outcome{429, 429}},
		{"one does not change the other", legacy, V20260728, outcome{429, 200}},
		{"the zero table", &Table{}, V20251125, outcome{-32029, 200}},
	} {
		t.Run("C-W23 "+c.name, func(t *testing.T) {
			e, status := c.table.Error(Refused, c.version, "", nil)
			if (outcome{e.Code, status}) != c.want {
				t.Errorf("%d with %d, want %v", e.Code, status, c.want)
			}
			if e, status := c.table.Error(Forbidden, c.version, "", nil); e.Code == -32010 || status == 429 {
				t.Error("settings of refusals changed another error")
			}
		})
	}
	if _, err := Default().With(Modern, -32029, 0); err == nil || !strings.Contains(err.Error(), "-32029") || !strings.Contains(err.Error(), "429") {
		t.Errorf("M-106 the error does not say what to do: %v", err)
	}
}

// TestRefusalIsTheGates holds the two places together that know the code of a refusal: the
// gate in front of somebody else's MCP server writes its own, by package wire.
func TestRefusalIsTheGates(t *testing.T) {
	w, err := wire.New(wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refusal := &sluice.Refusal{Reason: sluice.ReasonRate, Rule: "r", RetryAfter: time.Second}
	for _, v := range slices.Concat(Versions(), []string{"", "draft", "2099-01-01", "2026-07-29"}) {
		rec := httptest.NewRecorder()
		w.RefuseRPC(rec, httptest.NewRequest(http.MethodPost, "/mcp", nil), refusal, wire.RPC{Version: v})
		var gate struct{ Error struct{ Code int64 } }
		if err := json.Unmarshal(rec.Body.Bytes(), &gate); err != nil {
			t.Fatal(err)
		}
		e, status := Default().Error(Refused, v, "", nil)
		if e.Code != gate.Error.Code || status != rec.Code {
			t.Errorf("D12 at %q the broker says %d with %d, the gate %d with %d", v, e.Code, status, gate.Error.Code, rec.Code)
		}
	}
}
