// Command table runs the benchmarks of sluice and its peers in interleaved rounds
// and prints one table of ratios with the bar that each has to reach.
//
// It is run by "make bench", from the bench directory. The raw output of all
// rounds goes to the file named by -raw, in Go's benchmark format.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "two short rounds: tells a break from a bad day, not 5 % from 10 %")
	rounds := flag.Int("rounds", 4, "how many times to run everything")
	raw := flag.String("raw", "bench.txt", "`file` for the raw output of all rounds")
	only := flag.String("from", "", "print the table of this `file` of raw output and run nothing")
	flag.Parse()
	if *quick {
		*rounds = 2
	}
	if err := run(*quick, *rounds, *raw, *only); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(quick bool, rounds int, raw, from string) error {
	if from == "" {
		if err := measure(quick, rounds, raw); err != nil {
			return err
		}
		from = raw
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := read(bytes.NewReader(text), from)
	if err != nil {
		return err
	}
	return f.print(os.Stdout)
}

// measure builds the benchmarks once and runs them in rounds.
func measure(quick bool, rounds int, raw string) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	fmt.Fprintln(os.Stderr, "building")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go test -c: %w", err)
	}
	out, err := os.Create(raw)
	if err != nil {
		return err
	}
	start := time.Now()
	for round := range rounds {
		for _, s := range steps {
			if round%s.every != 0 {
				continue
			}
			fmt.Fprintf(os.Stderr, "%5.0fs  round %d of %d: %s\n", time.Since(start).Seconds(), round+1, rounds, s.what)
			if err := s.run(binary, quick, out); err != nil {
				out.Close()
				return err
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%5.0fs  done; raw output in %s\n", time.Since(start).Seconds(), raw)
	return out.Close()
}

func (s step) run(binary string, quick bool, out *os.File) error {
	each := s.time
	if quick {
		each = s.quick
	}
	cmd := exec.Command(binary, "-test.run=^$", "-test.bench="+s.bench, "-test.cpu="+s.cpu, "-test.benchtime="+each)
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; see the end of %s\n%s", s.what, err, out.Name(), &complaints)
	}
	return nil
}
