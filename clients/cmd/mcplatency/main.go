// Command mcplatency prints what the broker adds to a call of a tool, as tables:
//
//		go run ./cmd/mcplatency [-of added,transports,records] [-calls 4000]
//
//	  - added: the time of a call beside that of the same call made to the provider directly, over
//	    Streamable HTTP, with the books in memory and on disk, one after another and many at once.
//	  - transports: 200 callers at once over HTTP, HTTP with SSE, WebSocket and the stdio bridge,
//	    beside 200 at the provider directly over the same transport. Every call has to be answered.
//	  - records: what admission takes beside a ledger of 10, 10 000 and 1 000 000 reservations.
//
// Provider and broker are processes of their own. The sides take turns, so that a busy machine
// is busy for all of them, and a quantile is the median of those of the turns. What can be
// compared between two machines are the ratios.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	of := flag.String("of", "added,transports,records", "which tables")
	calls := flag.Int("calls", 4000, "how many calls each side makes in a row of a table")
	records := flag.Int("ledger", noLedger, "be a broker beside so many `records`; this program starts it so")
	flag.Parse()
	err := error(nil)
	if *records != noLedger {
		err = beBroker(*records, bufio.NewScanner(os.Stdin), os.Stdout)
	} else {
		err = measure(strings.Split(*of, ","), *calls)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcplatency:", err)
		os.Exit(1)
	}
}

// measure prints the tables.
func measure(of []string, calls int) error {
	tables := map[string]func(*place, int) error{"added": added, "transports": transports, "records": records}
	dir, err := os.MkdirTemp("", "mcplatency")
	if err != nil {
		return err
	}
	p := &place{dir: dir, sluice: filepath.Join(dir, "sluice")}
	defer p.clear()
	build := exec.Command("go", "build", "-o", p.sluice, "github.com/sluicegate/sluice/cmd/sluice")
	build.Dir = ".." // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, name := range of {
		table := tables[name]
		if table == nil {
			return fmt.Errorf("there is no table %q", name)
		}
		if err := table(p, calls); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.stop()
	}
	return nil
}

// A place is where processes run.
type place struct {
	dir     string
	sluice  string // the command
	running []*exec.Cmd
}

// start starts a process, and has its mistakes shown.
func (p *place) start(cmd *exec.Cmd) error {
	cmd.Dir, cmd.Stderr = p.dir, os.Stderr
	err := cmd.Start()
	if err == nil {
		p.running = append(p.running, cmd)
	}
	return err
}

// stop ends all processes. How they end does not matter.
func (p *place) stop() {
	for _, cmd := range slices.Backward(p.running) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	p.running = nil
}

func (p *place) clear() {
	p.stop()
	_ = os.RemoveAll(p.dir)
}

const (
	providerAt = "127.0.0.1:18190"
	memoryAt   = "127.0.0.1:18191"
	diskAt     = "127.0.0.1:18192"
)

// config is a broker with a rule of each kind, none of which ever refuses.
const config = `listen: {mcp: %q}
observability: {logLevel: error}
mcp:
  slots:
    - {slot: http, url: "http://` + providerAt + `/mcp"}
    - {slot: sse, url: "http://` + providerAt + `/sse", transport: sse}
    - {slot: websocket, url: "ws://` + providerAt + `/ws"}
    - {slot: stdio, command: [./sluice, mock-mcp]}
limits:
%s  rules:
    - {id: rate, rate: {max: 1000000, windowMs: 1000}}
    - {id: slots, concurrency: 1000, onTimeout: release}
    - {id: calls, groupBy: [subject], calls: {max: 100000000, windowMs: 60000}}
`

// provider starts a provider.
func (p *place) provider() error {
	return p.start(exec.Command(p.sluice, "mock-mcp", "--listen", providerAt))
}

// broker starts a broker in front of it. Books is a line of the limits block.
func (p *place) broker(address, books string) error {
	file := filepath.Join(p.dir, strings.ReplaceAll(address, ":", "-")+".yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, address, books), 0o600); err != nil {
		return err
	}
	return p.start(exec.Command(p.sluice, "serve", "--config", file))
}

// A sample is how long something took, in each of a side's turns.
type sample [][]time.Duration

// quantile is the median of those of the turns: what disturbs one turn of one side is left out.
func (s sample) quantile(percent int) time.Duration {
	var each []time.Duration
	for _, turn := range s {
		slices.Sort(turn)
		each = append(each, turn[len(turn)*percent/100])
	}
	slices.Sort(each)
	return each[len(each)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3g ms", d.Seconds()*1000) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
