package sluice_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

var errBroken = errors.New("connection refused")

// A broken store does not answer.
type broken struct{ *memory.Store }

func (broken) Apply(context.Context, []ledger.Command, []ledger.Result) error { return errBroken }

func TestStoreThatDoesNotAnswer(t *testing.T) {
	with := func(t *testing.T, mode sluice.FailMode) *sluice.Controller {
		store := memory.New(memory.Options{})
		t.Cleanup(func() { store.Close() })
		r := queued(one("r", limit.Slots(1)), sluice.Queue{})
		r.OnStoreError = mode
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{r}}, broken{store}, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("P-040 closed: refused, with the reason", func(t *testing.T) {
		_, err := with(t, sluice.FailClosed).Admit(background, sluice.Call{})
		r, ok := errors.AsType[*sluice.Refusal](err)
		if !ok || r.Reason != sluice.ReasonStore || r.Rule != "r" || !r.Degraded || r.Permanent || !errors.Is(err, errBroken) {
			t.Errorf("%+v", err)
		}
	})
	t.Run("P-040 open: admitted, and says so", func(t *testing.T) {
		c := with(t, sluice.FailOpen)
		for range 3 {
			adm, err := c.Admit(background, sluice.Call{})
			if err != nil || !adm.Degraded() {
				t.Fatalf("%v, degraded %v", err, adm.Degraded())
			}
			if err := adm.Settle(background, tokens(1)); err != nil {
				t.Error("nothing was taken, nothing is settled:", err)
			}
			adm.Release()
		}
	})
	t.Run("what asks the store tells its error", func(t *testing.T) {
		c := with(t, sluice.FailClosed)
		if _, err := c.Resume(background, "id"); !errors.Is(err, errBroken) {
			t.Errorf("Resume: %v", err)
		}
		if _, err := c.Reset(background, "who"); !errors.Is(err, errBroken) {
			t.Errorf("Reset: %v", err)
		}
	})
}

// A mumbling store carries out a Take and cannot say so, once.
type mumbling struct {
	*memory.Store
	mumbles bool
}

func (s *mumbling) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	err := s.Store.Apply(ctx, cmds, res)
	if s.mumbles && cmds[0].Op == ledger.Take {
		s.mumbles = false
		return errBroken
	}
	return err
}

func TestTakeThatNobodyHeardOf(t *testing.T) {
	store := &mumbling{memory.New(memory.Options{}), true}
	defer store.Close()
	c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{one("r", limit.Slots(3))}}, store, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	call := sluice.Call{ID: "job"}
	if _, err := c.Admit(background, call); !errors.Is(err, errBroken) {
		t.Fatalf("%v, want the store's error", err)
	}
	again := admit(t, c, call)
	if n := left(t, c, "r", sluice.Call{}); !again.Replayed() || n != 2 {
		t.Errorf("replayed %v, %d slots left, want what the first attempt has taken and no more", again.Replayed(), n)
	}
	again.Release()
	if n := left(t, c, "r", sluice.Call{}); n != 3 {
		t.Errorf("%d slots left, want all", n)
	}
}
