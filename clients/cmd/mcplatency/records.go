package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"text/tabwriter"
	"time"
)

// A ledgered is a process with a broker and a ledger. See [beBroker].
type ledgered struct {
	name string
	ask  *json.Encoder
	told *json.Decoder
}

// ledgered starts one. It is ready when it has made its records.
func (p *place) ledgered(name string, records int) (*ledgered, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-ledger", strconv.Itoa(records))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.start(cmd); err != nil {
		return nil, err
	}
	s := &ledgered{name, json.NewEncoder(in), json.NewDecoder(out)}
	var ready string
	if err := s.told.Decode(&ready); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// burst has the process do something many times.
func (s *ledgered) burst(q burstOf) (times []time.Duration, err error) {
	if err = s.ask.Encode(q); err == nil {
		err = s.told.Decode(&times)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return times, err
}

// records prints what admission takes beside ledgers of some sizes. The first side has no
// rules and so admits nothing, the second has them and an empty ledger.
func records(p *place, calls int) error {
	var sides []*ledgered
	for _, of := range []struct {
		name    string
		records int
	}{{"no rules", noRules}, {"0 records", 0}, {"10", 10}, {"10 000", 10_000}, {"1 000 000", 1_000_000}} {
		s, err := p.ledgered(of.name, of.records)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "admitted\tcallers\tledger\tp50\tp99\tp50 ÷ empty\tp99 ÷ empty")
	for _, what := range []string{paced, counted, reserved} {
		for _, callers := range []int{1, 16} {
			if err := recordsRow(out, sides, burstOf{what, callers, calls / turns}); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

func recordsRow(out *tabwriter.Writer, sides []*ledgered, q burstOf) error {
	times := make([]sample, len(sides))
	for range turns {
		for i, s := range sides {
			took, err := s.burst(q)
			if err != nil {
				return err
			}
			times[i] = append(times[i], took)
		}
	}
	empty50, empty99 := times[1].quantile(50), times[1].quantile(99)
	for i, s := range sides {
		p50, p99 := times[i].quantile(50), times[i].quantile(99)
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%.2f\t%.2f\n", q.What, q.Callers, s.name, ms(p50), ms(p99), ratio(p50, empty50), ratio(p99, empty99))
	}
	return nil
}
