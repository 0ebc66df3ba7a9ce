package sluice_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// Two controllers on one store are two processes on a shared one.
func TestKeySecret(t *testing.T) {
	policy := &sluice.Policy{Rules: []sluice.Rule{{
		ID: "r", GroupBy: []sluice.Dimension{sluice.Subject},
		Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Hour)}},
	}}}
	books := memory.New(memory.Options{})
	controller := func(secret string) *sluice.Controller {
		o := sluice.Options{}
		if secret != "" {
			o.KeySecret = []byte(secret)
		}
		c, err := sluice.Open(policy, books, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admitted := func(c *sluice.Controller) bool {
		_, err := c.Admit(context.Background(), sluice.Call{Subject: "user:alice"})
		return err == nil
	}
	if !admitted(controller("0123456789abcdef")) {
		t.Fatal("the first call was refused")
	}
	if admitted(controller("0123456789abcdef")) {
		t.Error("another process with the same secret has its own books")
	}
	if !admitted(controller("fedcba9876543210")) {
		t.Error("a process with another secret finds the first one's keys")
	}
	if !admitted(controller("")) {
		t.Error("a process without a secret finds the first one's keys")
	}
	_, err := sluice.Open(policy, books, sluice.Options{KeySecret: []byte("short")})
	if err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("a short secret: %v", err)
	}
}

// two returns two controllers on one store.
func two(t *testing.T, rules ...sluice.Rule) [2]*sluice.Controller {
	t.Helper()
	books := memory.New(memory.Options{})
	t.Cleanup(func() { books.Close() })
	var all [2]*sluice.Controller
	for i := range all {
		c, err := sluice.Open(&sluice.Policy{Rules: rules}, books, sluice.Options{KeySecret: []byte("0123456789abcdef")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all[i] = c
	}
	return all
}

func TestTwoControllersOnOneStore(t *testing.T) {
	t.Run("A-W16 share a pace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			nodes := two(t, queued(one("arxiv", limit.Pace(3*limit.Second)), sluice.Queue{}))
			var x []*caller
			for i := range 6 {
				x = append(x, send(background, nodes[i%2], sluice.Call{}))
			}
			time.Sleep(time.Minute)
			var starts []time.Duration
			for _, who := range x {
				if !who.admitted() {
					t.Fatal(who.err)
				}
				starts = append(starts, who.at)
			}
			slices.Sort(starts)
			if want := []time.Duration{0, 3 * second, 6 * second, 9 * second, 12 * second, 15 * second}; !slices.Equal(starts, want) {
				t.Errorf("starts at %v, want %v", starts, want)
			}
		})
	})
	t.Run("P-077 share a limit, fifty callers each", func(t *testing.T) {
		nodes := two(t, one("a", limit.Window(10, limit.Minute)), one("b", limit.Window(100, limit.Hour)))
		var passed atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if _, err := nodes[i%2].Admit(background, sluice.Call{}); err == nil {
					passed.Add(1)
				}
			})
		}
		all.Wait()
		if n := passed.Load(); n != 10 {
			t.Errorf("%d pass, want 10", n)
		}
		if n := left(t, nodes[0], "b", sluice.Call{}); n != 90 {
			t.Errorf("%d left of the other limit, want 90", n)
		}
	})
}
