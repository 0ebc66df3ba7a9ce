package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// child is the line of a slot whose provider is this test binary.
func child(t *testing.T, slot string, o mcptest.Options) string {
	t.Helper()
	path, env, err := mcptest.Child(o)
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(env, "=")
	return fmt.Sprintf("{slot: %s, command: [%q], env: {%s: %q}}", slot, path, name, value)
}

// TestThroughTheBroker has every client do with a broker in between what TestDirect does without.
func TestThroughTheBroker(t *testing.T) {
	to := startBroker(t, "", child(t, "plant", mcptest.Options{})).slot("plant")
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := k.connect(t, to)
			exercise(t, k, c)
			if !k.listOnly {
				cancels(t, k.name, c, nil)
			}
		})
	}
}

// TestProviders has a client of each era use a provider that is reached in every way that a
// broker knows.
func TestProviders(t *testing.T) {
	p := mcptest.New(mcptest.Options{})
	legacy := mcptest.New(mcptest.Options{Versions: []string{"2025-06-18"}})
	mux := http.NewServeMux()
	mux.Handle("/mcp", p.Handler(mcptest.HTTP{}))
	mux.Handle("/legacy", legacy.Handler(mcptest.HTTP{}))
	mux.Handle("/json", p.Handler(mcptest.HTTP{JSON: true}))
	mux.Handle("/sse", p.SSE())
	mux.Handle("/socket", p.Socket())
	s := httptest.NewServer(mux)
	t.Cleanup(func() { p.Close(); legacy.Close(); s.CloseClientConnections(); s.Close() })
	b := startBroker(t, "  providers: [{id: plant, secretEnv: PLANT_SECRET}]\n",
		child(t, "stdio", mcptest.Options{}),
		fmt.Sprintf("{slot: typescript, command: [%q, %q]}", node(t), absolute(t, nodeFile("mcp-server.mjs"))),
		fmt.Sprintf("{slot: modern, url: %q, protocol: modern}", s.URL+"/mcp"),
		fmt.Sprintf("{slot: legacy, url: %q}", s.URL+"/legacy"),
		fmt.Sprintf("{slot: json, url: %q}", s.URL+"/json"),
		fmt.Sprintf("{slot: sse, url: %q, transport: sse}", s.URL+"/sse"),
		fmt.Sprintf("{slot: socket, url: %q}", strings.Replace(s.URL, "http", "ws", 1)+"/socket"))
	secret := http.Header{"X-Provider-Token": {plantSecret}}
	if _, err := p.DialIn(bounded(t), "ws://"+b.address+"/provider/dialled", secret); err != nil {
		t.Fatal(err)
	}
	if _, err := mcptest.DialMany(bounded(t), "ws://"+b.address+"/providers", secret, map[string]*mcptest.Provider{"one": p, "other": p}); err != nil {
		t.Fatal(err)
	}
	for _, slot := range []string{"stdio", "typescript", "modern", "legacy", "json", "sse", "socket", "dialled", "one", "other"} {
		b.await(t, slot)
		for _, k := range kinds {
			if !strings.HasPrefix(k.name, "go-sdk over HTTP") {
				continue
			}
			t.Run(slot+", "+k.name, func(t *testing.T) {
				t.Parallel()
				c := k.connect(t, b.slot(slot))
				exercise(t, k, c)
				if slot != "json" { // which has no progress after which to cancel
					cancels(t, k.name+slot, c, map[string]*mcptest.Provider{"legacy": legacy, "modern": p, "sse": p, "socket": p, "dialled": p, "one": p, "other": p}[slot])
				}
			})
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// everythingAndFiles are the slots of the reference servers in JavaScript, and the folder that
// one of them serves.
func everythingAndFiles(t *testing.T) (slots []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	return []string{
		fmt.Sprintf("{slot: everything, command: [%q, %q, stdio]}", node(t), absolute(t, nodeFile("node_modules/.bin/mcp-server-everything"))),
		fmt.Sprintf("{slot: files, command: [%q, %q, %q]}", node(t), absolute(t, nodeFile("node_modules/.bin/mcp-server-filesystem")), dir),
	}, dir
}

// TestReferenceServers has every client use the reference servers.
func TestReferenceServers(t *testing.T) {
	slots, dir := everythingAndFiles(t)
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	if err := os.WriteFile(filepath.Join(dir, "big.txt"), []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBroker(t, "", slots...)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := k.connect(t, b.slot("everything"))
			if list := c.do(t, command{List: true}).Tools; !slices.Contains(list, "echo") {
				t.Errorf("tools: %v", list)
			}
			if r := call(t, c, "echo", `{"message":"hi"}`); r.Text != "Echo: hi" {
				t.Errorf("echo: %+v", r)
			}
			files := k.connect(t, b.slot("files"))
			path, _ := json.Marshal(filepath.Join(dir, "big.txt"))
			if r := call(t, files, "read_text_file", `{"path":`+string(path)+`}`); r.Text != big {
				t.Errorf("M-096 %d bytes, want %d; %+v", len(r.Text), len(big), r.Error)
			}
			if !k.listOnly {
				longRunning(t, k, c)
			}
		})
	}
}

// longRunning has a client follow and cancel what takes a while. The server goes on after a
// cancel and never answers the call (facts of server-everything, M-012).
func longRunning(t *testing.T, k kind, c client) {
	const tool = "trigger-long-running-operation"
	r := call(t, c, tool, `{"duration":0.2,"steps":4}`)
	if !strings.Contains(r.Text, "completed") || !rising(r.Progress) || len(r.Progress) < 2 {
		t.Errorf("progress: %+v", r)
	}
	r = c.do(t, command{Call: tool, Arguments: json.RawMessage(`{"duration":5,"steps":100}`), CancelAfter: 2})
	if !r.Cancelled || r.Error == nil || !rising(r.Progress) {
		t.Errorf("cancelled: %+v", r)
	}
	if r := call(t, c, "echo", `{"message":"on"}`); r.Text != "Echo: on" {
		t.Errorf("after a cancel: %+v", r)
	}
}

// TestAllSlots has every client use two reference servers as one, whose tools have the slot before
// their names. A call is counted once, at the server that it is for.
func TestAllSlots(t *testing.T) {
	slots, dir := everythingAndFiles(t)
	const most = 20
	b := startBroker(t, fmt.Sprintf(quota, most), slots...)
	passed := 0
	for _, k := range kinds {
		c := k.connect(t, b.slot("_all"))
		list := c.do(t, command{List: true}).Tools
		if !slices.Contains(list, "everything-echo") || !slices.Contains(list, "files-list_directory") {
			t.Errorf("4.2.14 %s: tools %v", k.name, list)
		}
		path, _ := json.Marshal(map[string]string{"path": dir})
		for _, r := range []reply{call(t, c, "everything-echo", `{"message":"all"}`), call(t, c, "files-list_directory", string(path))} {
			if r.Error == nil {
				passed++
			} else if !k.listOnly {
				refused(t, k, r)
			}
		}
	}
	if passed != most {
		t.Errorf("C-40 %d calls got through, want %d of %d", passed, most, 2*len(kinds))
	}
}

// quota is a rule about all calls of all slots over all transports.
const quota = `
limits:
  rules:
    - {id: shared, calls: {max: %d, windowMs: 86400000}}
`

// TestQuota has all clients over all transports call three providers at once until each is
// refused: as many calls get through as the one rule allows.
func TestQuota(t *testing.T) {
	const most, each = 40, 4
	journal := filepath.Join(t.TempDir(), "journal")
	slots, _ := everythingAndFiles(t)
	b := startBroker(t, fmt.Sprintf(quota, most), append(slots, child(t, "plant", mcptest.Options{Journal: journal}))...)
	var all sync.WaitGroup
	var mu sync.Mutex
	passed, planted := 0, 0
	for _, k := range kinds {
		plant, everything := k.connect(t, b.slot("plant")), k.connect(t, b.slot("everything"))
		all.Go(func() {
			for range each {
				one, other := call(t, plant, "echo", `{"message":"x"}`), call(t, everything, "echo", `{"message":"x"}`)
				mu.Lock()
				for _, r := range []reply{one, other} {
					if r.Error == nil {
						passed++
					} else if !k.listOnly {
						refused(t, k, r)
					}
				}
				if one.Error == nil {
					planted++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if passed != most {
		t.Errorf("C-39 %d calls got through, want %d of %d", passed, most, 2*each*len(kinds))
	}
	if seen, err := mcptest.Journal(journal); err != nil || len(seen) != planted {
		t.Errorf("C-34 the provider has executed %d calls, and %d were answered: %v", len(seen), planted, err)
	}
}

// refused looks at what a client is told of a refusal.
func refused(t *testing.T, k kind, r reply) {
	t.Helper()
	code := int64(-32029)
	if k.isModern {
		code = 429
	}
	var data struct {
		Reason, RuleID string
		RetryAfterMs   int64
	}
	err := json.Unmarshal(r.Error.Data, &data)
	if err != nil || r.Error.Code != code || data.Reason != "limit-exceeded" || data.RuleID != "shared" || data.RetryAfterMs < 1 || !strings.Contains(r.Error.Message, "shared") {
		t.Errorf("C-33 M-101 %s: %+v %s", k.name, r.Error, r.Error.Data)
	}
}
