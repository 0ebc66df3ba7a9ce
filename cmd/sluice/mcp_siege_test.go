package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// besieged is a broker with a provider of each kind, roles, limits and an audit.
const besieged = `
admin: {token: "file:admin-token"}
identity: {jwt: [{issuer: "https://issuer.example", audience: sluice, jwks: %[1]s/local.jwks.json}]}
mcp:
  audit: {file: audit.jsonl}
  slots: [{slot: child, command: [sluice, mock-mcp]}, {slot: web, url: %[2]q}]
  providers: [{id: plant, secretEnv: PLANT_SECRET, allowedResources: [/plant]}]
auth:
  roles: {caller: {capabilities: ["*"]}}
  assignments: [{subject: "user:alice", role: caller, resource: "/**"}]
limits: {storeFile: ledger, rules: [{id: calls, calls: {max: 1000, windowMs: 3600000}}, {id: slots, concurrency: 50, onTimeout: release}]}
`

// A siege is the command, serving as a process of its own.
type siege struct {
	plant
	pid int
}

func openSiege(t *testing.T) *siege {
	t.Helper()
	t.Setenv("PLANT_SECRET", secretOfTests)
	t.Setenv(tokenVariable, adminToken)
	at, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	s := &siege{plant: plant{t: t, dir: t.TempDir(), provider: mcptest.New(mcptest.Options{}), alice: token(t, "ops")}}
	t.Cleanup(s.provider.Close)
	web := httptest.NewServer(s.provider.Handler(mcptest.HTTP{}))
	t.Cleanup(web.Close)
	for name, text := range map[string]string{"sluice.yaml": fmt.Sprintf(besieged, at, web.URL), "admin-token": adminToken} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	broker, admin := freeAddress(t), freeAddress(t)
	cmd := exec.Command("sluice", "serve", "-c", filepath.Join(s.dir, "sluice.yaml"), "--set", "listen.mcp="+broker, "--set", "listen.admin="+admin)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("sluice ends with %v and says:\n%s", err, s.file("log"))
		}
	})
	s.broker, s.admin, s.pid = "http://"+broker, "http://"+admin, cmd.Process.Pid
	waitFor(t, func() bool {
		text, err := ask("GET", s.admin+"/actuator/health", http.Header{})
		return err == nil && strings.Contains(text, "UP")
	})
	line, err := s.provider.DialIn(t.Context(), "ws://"+broker+"/provider/plant", http.Header{"X-Provider-Token": {secretOfTests}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = line.Close() })
	waitFor(t, func() bool {
		connected := 0
		for _, slot := range s.diagnosis().Slots {
			if slot.Connected {
				connected++
			}
		}
		return connected == 3
	})
	return s
}

func (s *siege) file(name string) []byte {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// serves wants good calls of each provider to be answered, and soon.
func (s *siege) serves() {
	s.t.Helper()
	for _, slot := range []string{"child", "web", "plant"} {
		began := time.Now()
		if f := s.done(slot, "echo", `{"n":1}`); f.Error != nil || time.Since(began) > patience/2 {
			s.t.Errorf("%s answers %s after %v", slot, f.Raw, time.Since(began))
		}
	}
}

// metric is a gauge of the process.
func (s *siege) metric(name string) float64 {
	s.t.Helper()
	text, err := ask("GET", s.admin+"/metrics", http.Header{"Authorization": {"Bearer " + adminToken}})
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		s.t.Fatalf("no metric %s", name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// A way is a client's transport: it sends a frame and returns what answers it, with the HTTP
// status if there is one.
type way func(frame string) (answer []byte, status int)

func (s *siege) post(header []string, path, frame string) (answer []byte, status int, h http.Header) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := mcptest.Ask{Body: frame, Header: append([]string{"Authorization: Bearer " + s.alice}, header...)}.Send(ctx, s.broker+path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	_, text, err := r.NextEvent()
	if err != nil && err != io.EOF {
		s.t.Fatal(err)
	}
	return []byte(text), r.StatusCode, r.Header
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

func (s *siege) legacy() way {
	_, _, h := s.post(nil, "/plant/mcp", hello)
	session := "Mcp-Session-Id: " + h.Get("Mcp-Session-Id")
	return func(frame string) ([]byte, int) {
		answer, status, _ := s.post([]string{session}, "/plant/mcp", frame)
		return answer, status
	}
}

func (s *siege) socket() way {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*patience)
	s.t.Cleanup(cancel)
	c, _, err := websocket.Dial(ctx, s.broker+"/plant", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + s.alice}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.CloseNow() })
	send := func(frame string) ([]byte, int) {
		if err := c.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			s.t.Fatal(err)
		}
		_, answer, err := c.Read(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		return answer, 0
	}
	send(hello)
	return send
}

func (s *siege) events() way {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*patience)
	s.t.Cleanup(cancel)
	r, err := mcptest.Ask{Method: "GET", Header: []string{"Authorization: Bearer " + s.alice, "Accept: text/event-stream"}}.Send(ctx, s.broker+"/plant/sse")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(r.Close)
	next := func() []byte {
		_, data, err := r.NextEvent()
		if err != nil {
			s.t.Fatal(err)
		}
		return []byte(data)
	}
	endpoint := string(next())
	send := func(frame string) ([]byte, int) {
		if answer, status, _ := s.post(nil, endpoint, frame); status != http.StatusAccepted {
			return answer, status
		}
		return next(), 0
	}
	send(hello)
	return send
}

func (s *siege) bridge() way {
	cmd := exec.Command("sluice", "mcp", "stdio", "--slot", "plant", "--url", strings.Replace(s.broker, "http:", "ws:", 1))
	cmd.Env = append(os.Environ(), brokerToken+"="+s.alice)
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // of a batch that was refused whole it waits for the answers
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	send := func(frame string) ([]byte, int) {
		if _, err := io.WriteString(in, frame+"\n"); err != nil {
			s.t.Fatal(err)
		}
		answer, err := lines.ReadBytes('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		return answer, 0
	}
	send(hello)
	return send
}

// leaksNothing wants neither a caller's text nor a credential where operators look.
func (s *siege) leaksNothing(planted string) {
	s.t.Helper()
	metrics, err := ask("GET", s.admin+"/metrics", http.Header{"Authorization": {"Bearer " + adminToken}})
	if err != nil {
		s.t.Fatal(err)
	}
	diagnosis, err := json.Marshal(s.diagnosis())
	if err != nil {
		s.t.Fatal(err)
	}
	for name, text := range map[string][]byte{"the log": s.file("log"), "the audit": s.file("audit.jsonl"), "the ledger": s.file("ledger"), "metrics": []byte(metrics), "the diagnosis": diagnosis} {
		for _, secret := range []string{planted, s.alice, secretOfTests, adminToken} {
			if bytes.Contains(text, []byte(secret)) {
				s.t.Errorf("%.24s… is in %s", secret, name)
			}
		}
	}
}

// memory is what the process has in memory at most so far, in bytes.
func (s *siege) memory() int64 { return int64(s.metric("process_resident_memory_bytes")) }
