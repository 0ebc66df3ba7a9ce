package main

import (
	"fmt"
	"os"
	"text/tabwriter"
)

// turns is how often each side has its turn in a row of a table.
const turns = 20

// added prints the times of calls over Streamable HTTP.
func added(p *place, calls int) error {
	if err := p.provider(); err != nil {
		return err
	}
	if err := p.broker(memoryAt, ""); err != nil {
		return err
	}
	if err := p.broker(diskAt, "  storeFile: books\n"); err != nil {
		return err
	}
	names := []string{"direct", "broker, books in memory", "broker, books on disk"}
	sides := make([]way, len(names))
	for i, url := range []string{"http://" + providerAt + "/mcp", "http://" + memoryAt + "/http/mcp", "http://" + diskAt + "/http/mcp"} {
		var err error
		if sides[i], err = open(to(overHTTP, url)); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "bytes\tat once\tway\tp50\tp99\tadded p50\tadded p99")
	for _, row := range []struct{ bytes, callers int }{{100, 1}, {20_000, 1}, {100, 16}, {100, 200}} {
		times, err := inTurns(sides, calls, row.callers, row.bytes)
		if err != nil {
			return err
		}
		for i, name := range names {
			p50, p99 := times[i].quantile(50), times[i].quantile(99)
			fmt.Fprintf(out, "%d\t%d\t%s\t%s\t%s\t%s\t%s\n", row.bytes, row.callers, name, ms(p50), ms(p99), ms(p50-times[0].quantile(50)), ms(p99-times[0].quantile(99)))
		}
	}
	return out.Flush()
}

// inTurns has sides make calls, and returns their times.
func inTurns(sides []way, calls, callers, bytes int) ([]sample, error) {
	times := make([]sample, len(sides))
	for range turns {
		for i, side := range sides {
			took, err := burst(side, max(calls/turns, callers), callers, bytes)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	return times, nil
}

// atOnce is how many calls are under way in the table of transports.
const atOnce = 200

// transports prints the times of many calls at once over each transport.
func transports(p *place, calls int) error {
	if err := p.provider(); err != nil {
		return err
	}
	if err := p.broker(memoryAt, ""); err != nil {
		return err
	}
	ways := []struct {
		name           string
		direct, broker func() (way, error)
	}{
		{"HTTP", to(overHTTP, "http://"+providerAt+"/mcp"), to(overHTTP, "http://"+memoryAt+"/http/mcp")},
		{"SSE", to(overSSE, "http://"+providerAt+"/sse"), to(overSSE, "http://"+memoryAt+"/sse/sse")},
		{"WebSocket", to(overSocket, "ws://"+providerAt+"/ws"), to(overSocket, "ws://"+memoryAt+"/websocket")},
		{"stdio", p.overStdio("mock-mcp"), p.overStdio("mcp", "stdio", "--slot", "stdio", "--url", "ws://"+memoryAt)},
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "transport\tat once\tcalls\tanswered\tdirect p50\tp99\tbroker p50\tp99\tratio p50\tp99")
	for _, t := range ways {
		direct, err := open(t.direct)
		if err != nil {
			return fmt.Errorf("%s, direct: %w", t.name, err)
		}
		broker, err := open(t.broker)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		times, err := inTurns([]way{direct, broker}, calls, atOnce, 100)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		fast50, fast99, slow50, slow99 := times[0].quantile(50), times[0].quantile(99), times[1].quantile(50), times[1].quantile(99)
		fmt.Fprintf(out, "%s\t%d\t%d\tall\t%s\t%s\t%s\t%s\t%.2f\t%.2f\n", t.name, atOnce, turns*max(calls/turns, atOnce), ms(fast50), ms(fast99), ms(slow50), ms(slow99), ratio(slow50, fast50), ratio(slow99, fast99))
	}
	return out.Flush()
}

// to connects to an address.
func to(connect func(url string) (way, error), url string) func() (way, error) {
	return func() (way, error) { return connect(url) }
}
