package gate_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/cost"
)

// costing is a gate with one endpoint of that cost and limit, for every path.
func costing(t *testing.T, n int64, o cost.Options, more ...sluice.Rule) http.Handler {
	t.Helper()
	g := newGate(t, open(t, append(more, route("e", n))...), gate.Options{
		Endpoints: []gate.Endpoint{{ID: "e", Pattern: "/**", Cost: o}},
		MCP:       []gate.MCP{{Pattern: "/mcp"}},
	})
	return g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), 500)
		}
		w.Header().Set("X-Body-Length", fmt.Sprint(len(b)))
	}))
}

func ones(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

func call(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func TestCost(t *testing.T) {
	t.Run("B-W29 an endpoint has a fixed cost", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Calls: new(int64(4))})
		expectList(t, "statuses", statuses(h, request("GET", "/"), request("GET", "/"), request("GET", "/")), []int{200, 200, 429})
	})
	t.Run("I-057 a batch of 11 over a limit of 10 is refused and debits nothing", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Extractor: cost.JSONArray})
		expectList(t, "statuses", statuses(h, withBody("/", ones(11)), withBody("/", ones(10)), withBody("/", "[]")), []int{429, 200, 429})
	})
	t.Run("I-057 the body reaches the handler whole", func(t *testing.T) {
		h := costing(t, 1000, cost.Options{Extractor: cost.JSONArray, Inspect: 64, Max: 7})
		for _, body := range []string{ones(10), ones(500)} {
			expect(t, "length", do(h, withBody("/", body)).Header.Get("X-Body-Length"), fmt.Sprint(len(body)))
		}
	})
	t.Run("P-066 3.7 a body that is too long to look at costs the most", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Extractor: cost.JSONArray, Inspect: 64, Max: 8})
		expectList(t, "statuses", statuses(h, withBody("/", ones(500)), withBody("/", ones(500))), []int{200, 429})
	})
	t.Run("3.7 or is refused with 413", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Extractor: cost.JSONArray, Inspect: 64, RefuseOversize: true})
		unknown := withBody("/", ones(500))
		unknown.ContentLength = -1
		expectList(t, "statuses", statuses(h, withBody("/", ones(500)), unknown, withBody("/", ones(10))), []int{413, 413, 200})
	})
	t.Run("a malformed body is 400 and debits nothing", func(t *testing.T) {
		h := costing(t, 1, cost.Options{Extractor: cost.JSONArray})
		expectList(t, "statuses", statuses(h, withBody("/", "[1,"), withBody("/", "{}"), withBody("/", "[1]")), []int{400, 400, 200})
	})
	t.Run("3.7 a compressed batch is counted inside", func(t *testing.T) {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		io.WriteString(w, ones(11))
		w.Close()
		h := costing(t, 10, cost.Options{Extractor: cost.JSONArray})
		expectList(t, "statuses", statuses(h, withBody("/", z.String(), "Content-Encoding", "gzip")), []int{429})
	})
	t.Run("3.7 an alias is a field more", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Extractor: cost.GraphQL})
		query := func(n int) string {
			fields := ""
			for i := range n {
				fields += fmt.Sprintf("a%d: user(id: %d) { name } ", i, i)
			}
			b, _ := json.Marshal(map[string]string{"query": "{ " + fields + "}"})
			return string(b)
		}
		expectList(t, "statuses", statuses(h, withBody("/", query(11)), withBody("/", query(9)), withBody("/", query(2))), []int{429, 200, 429})
	})
}

func TestJSONRPCCost(t *testing.T) {
	search := call(1, "tools/call", `{"name":"search"}`)
	batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(search+",", n), ",") + "]" }
	t.Run("I-060 20 calls in a batch are 20", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Extractor: cost.JSONRPC})
		expectList(t, "statuses", statuses(h, withBody("/", batch(20)), withBody("/", batch(10)), withBody("/", search)), []int{429, 200, 429})
	})
	t.Run("I-060 the protocol that has no batches refuses one", func(t *testing.T) {
		h := costing(t, 10, cost.Options{Extractor: cost.JSONRPC})
		expectList(t, "statuses", statuses(h, withBody("/", batch(2), "MCP-Protocol-Version", "2025-06-18")), []int{400})
	})
	t.Run("I-061 housekeeping costs nothing", func(t *testing.T) {
		h := costing(t, 1, cost.Options{Extractor: cost.JSONRPC})
		for range 100 {
			expectList(t, "ping", statuses(h, withBody("/", call(1, "ping", "{}"))), []int{200})
		}
		got := statuses(h, withBody("/", call(1, "initialize", "{}")),
			withBody("/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`),
			withBody("/", `{"jsonrpc":"2.0","id":1,"result":{}}`), withBody("/", search), withBody("/", search))
		expectList(t, "statuses", got, []int{200, 200, 200, 200, 429})
	})
	t.Run("I-129 calls that a tool wraps are debited to the tool they are", func(t *testing.T) {
		rule := on(perHour("search", 120, "http"), sluice.Capability, "search")
		h := costing(t, 1000, cost.Options{Extractor: cost.JSONRPC, Pointer: "/arguments/calls", Class: "/tool"}, rule)
		wrapped := func(n int) string {
			calls := strings.TrimSuffix(strings.Repeat(`{"tool":"search"},`, n), ",")
			return call(1, "tools/call", `{"name":"batch","arguments":{"calls":[{"tool":"cheap"},`+calls+`]}}`)
		}
		got := statuses(h, withBody("/", wrapped(50)), withBody("/", wrapped(50)), withBody("/", wrapped(50)), withBody("/", search))
		expectList(t, "statuses", got, []int{200, 200, 429, 200})
	})
	t.Run("B-W25 B-21 a refusal on an MCP path is a JSON-RPC error with the call's id", func(t *testing.T) {
		h := costing(t, 1, cost.Options{Extractor: cost.JSONRPC})
		do(h, withBody("/mcp", search))
		resp := do(h, withBody("/mcp", call(42, "tools/call", `{"name":"search"}`)))
		var answer struct {
			ID    int
			Error struct {
				Code int
				Data struct{ RuleID string }
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		expect(t, "status", resp.StatusCode, 200)
		expect(t, "id", answer.ID, 42)
		expect(t, "code", answer.Error.Code, -32029)
		expect(t, "rule", answer.Error.Data.RuleID, "e")
		if resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
}
