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
	"path/filepath"
)

func main() {
	quick := flag.Bool("quick", false, "short rounds: tells a break from a bad day, not 5 % from 10 %")
	rounds := flag.Int("rounds", 3, "how many times to run everything")
	raw := flag.String("raw", "bench.txt", "`file` for the raw output of all rounds")
	from := flag.String("from", "", "print the table of this `file` of raw output and run nothing")
	flag.Parse()
	var err error
	if *from != "" {
		_, err = show(*from)
	} else {
		err = run(*quick, *rounds, *raw)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// run measures, prints the table, and profiles what fell short.
func run(quick bool, rounds int, raw string) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := binary{path: filepath.Join(dir, "bench.test"), profile: filepath.Join(dir, "cpu.out")}
	if err := b.build(); err != nil {
		return err
	}
	if err := b.measure(quick, rounds, raw); err != nil {
		return err
	}
	missed, err := show(raw)
	if err != nil {
		return err
	}
	for _, m := range missed {
		if err := b.explain(os.Stdout, m); err != nil {
			return err
		}
	}
	return nil
}

// show prints the table of raw output and returns the bars that were not reached.
func show(file string) ([]bar, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := read(bytes.NewReader(text), file)
	if err != nil {
		return nil, err
	}
	return f.print(os.Stdout)
}
