// Command mcplatency prints what the broker adds to a call of a tool: its time beside that of
// the same call made to the provider directly, over Streamable HTTP, one call after another
// and many at once.
//
//	go run ./cmd/mcplatency [-calls 3000]
//
// The provider, "sluice mock-mcp", and the broker, "sluice serve" with rules of every kind, are
// processes of their own. The sides take turns, so that a busy machine is busy for both.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	calls := flag.Int("calls", 3000, "how many calls each side makes in a row of the table")
	flag.Parse()
	if err := measure(*calls); err != nil {
		fmt.Fprintln(os.Stderr, "mcplatency:", err)
		os.Exit(1)
	}
}

const (
	providerAt = "127.0.0.1:18190"
	brokerAt   = "127.0.0.1:18191"
	durableAt  = "127.0.0.1:18192"
)

// config is a broker with a rule of each kind, none of which ever refuses.
const config = `listen: {mcp: %q}
mcp:
  slots:
    - {slot: p, url: "http://` + providerAt + `/mcp"}
limits:
%s  rules:
    - {id: rate, rate: {max: 1000000, windowMs: 1000}}
    - {id: slots, concurrency: 1000, onTimeout: release}
    - {id: calls, groupBy: [subject], calls: {max: 100000000, windowMs: 60000}}
`

// A side is one way to the provider.
type side struct {
	name, url string
	session   string
	client    *http.Client
}

func measure(calls int) error {
	dir, err := os.MkdirTemp("", "mcplatency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command := filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", command, "github.com/sluicegate/sluice/cmd/sluice")
	build.Dir = ".." // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	sides := []*side{
		{name: "direct", url: "http://" + providerAt + "/mcp"},
		{name: "broker, books in memory", url: "http://" + brokerAt + "/p/mcp"},
		{name: "broker, books on disk", url: "http://" + durableAt + "/p/mcp"},
	}
	files := map[string]string{brokerAt: fmt.Sprintf(config, brokerAt, ""), durableAt: fmt.Sprintf(config, durableAt, "  storeFile: books\n")}
	stop, err := start(dir, exec.Command(command, "mock-mcp", "--listen", providerAt))
	if err != nil {
		return err
	}
	defer stop()
	for address, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(address, ":", "-")+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		stop, err := start(dir, exec.Command(command, "serve", "--config", file))
		if err != nil {
			return err
		}
		defer stop()
	}
	for _, s := range sides {
		s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
		if err := s.initialize(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return table(sides, calls)
}

// start starts a process.
func start(dir string, cmd *exec.Cmd) (stop func(), err error) {
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// initialize opens a session, and waits for the side to be there.
func (s *side) initialize() error {
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"latency","version":"1"}}}`
	var err error
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		var r *http.Response
		if r, err = s.post(hello); err != nil {
			continue
		}
		body, rerr := io.ReadAll(r.Body)
		r.Body.Close()
		if err = rerr; err != nil || !bytes.Contains(body, []byte(`"result"`)) {
			err = errors.Join(err, fmt.Errorf("%s", body))
			continue
		}
		s.session = r.Header.Get("Mcp-Session-Id")
		r, err = s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if err == nil {
			r.Body.Close()
		}
		return err
	}
	return err
}

func (s *side) post(body string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s.session != "" {
		r.Header.Set("Mcp-Session-Id", s.session)
		r.Header.Set("MCP-Protocol-Version", "2025-06-18")
	}
	return s.client.Do(r)
}

// call calls a tool, and returns how long it took.
func (s *side) call(id int, payload string) (time.Duration, error) {
	began := time.Now()
	r, err := s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, id, payload))
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	took := time.Since(began)
	if err == nil && !bytes.Contains(body, []byte(`"result"`)) {
		err = fmt.Errorf("status %d: %.300s", r.StatusCode, body)
	}
	return took, err
}

// table makes the calls and prints their times.
func table(sides []*side, calls int) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "bytes\tat once\tway\tp50\tp99\tadded p50\tadded p99")
	for _, row := range []struct{ bytes, callers int }{{100, 1}, {20_000, 1}, {100, 16}, {100, 200}} {
		times := make([][]time.Duration, len(sides))
		const turns = 10
		for range turns {
			for i, s := range sides {
				took, err := s.burst(calls/turns, row.callers, strings.Repeat("x", row.bytes))
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				times[i] = append(times[i], took...)
			}
		}
		p50, p99 := quantiles(times[0])
		for i, s := range sides {
			slow50, slow99 := quantiles(times[i])
			fmt.Fprintf(out, "%d\t%d\t%s\t%.2f ms\t%.2f ms\t%+.2f ms\t%+.2f ms\n", row.bytes, row.callers, s.name, ms(slow50), ms(slow99), ms(slow50-p50), ms(slow99-p99))
		}
	}
	return out.Flush()
}

// burst makes n calls from a number of callers.
func (s *side) burst(n, callers int, payload string) ([]time.Duration, error) {
	var mu sync.Mutex
	var times []time.Duration
	var failed error
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < n; i += callers {
				took, err := s.call(i+1, payload)
				mu.Lock()
				times, failed = append(times, took), errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return times, failed
}

func quantiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
