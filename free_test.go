package sluice_test

import (
	"context"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// TestSlotsAreFreedOnce abandons an admission that the store remembers, and releases it
// later: the slots that went at the abandoning must not come back a second time, for by
// then they are somebody else's.
func TestSlotsAreFreedOnce(t *testing.T) {
	rule := one("C-47", limit.Slots(2))
	rule.OnTimeout = sluice.Free
	c := engine(t, rule)
	admit := func(id string) sluice.Admission {
		t.Helper()
		a, err := c.Admit(context.Background(), sluice.Call{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	gone := admit("gone")
	gone.Abandon()
	defer admit("first").Release()
	defer admit("second").Release()
	gone.Release()
	if _, ok := try(t, c, sluice.Call{ID: "third"}); ok {
		t.Error("three calls hold two slots")
	}
}
