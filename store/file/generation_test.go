package file

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// TestGenerationThatCannotBeWritten takes the file from under the log that is to take the
// place of the present one, while many callers write to that.
func TestGenerationThatCannotBeWritten(t *testing.T) {
	var said bytes.Buffer // the goroutine that keeps the books alone writes to it
	s, err := Open(filepath.Join(t.TempDir(), "books"), Options{MaxRecords: 2000, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var steps []ledger.Step // many, so that the log grows
	for cell := range uint64(30) {
		steps = append(steps, ledger.Step{Key: ledger.Key{Cell: cell}, Limit: limit.Slots(100), N: 1})
	}
	const often = 3
	var last, failed atomic.Uint64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for failed.Load() < often && !t.Failed() {
				id := ledger.ID{Hi: 1, Lo: last.Add(1)}
				for _, cmd := range []ledger.Command{{ID: id, Steps: slices.Clone(steps)}, {Op: ledger.Release, ID: id}} {
					res := make([]ledger.Result, 1)
					if err := s.Apply(context.Background(), []ledger.Command{cmd}, res); err != nil || res[0].Status != ledger.Done {
						t.Errorf("%+v, %v", res, err)
					}
				}
			}
		})
	}
	var spoilt *generation
	for failed.Load() < often && !t.Failed() {
		r := &request{answer: make(chan error, 1), do: func() error {
			if g := s.next; g != nil && g != spoilt && !g.full {
				g.journal.file.Close()
				spoilt = g
				failed.Add(1)
			}
			return nil
		}}
		if err := s.ask(context.Background(), r); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "could not be written anew"); n < often-1 { // the last may not have been noticed
		t.Errorf("it says %d times that the log goes on growing:\n%s", n, said.String())
	}
}
