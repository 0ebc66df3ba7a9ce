//go:build !race

package sluice_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// TestNothingIsAllocated is not for the race detector, which allocates by itself.
func TestNothingIsAllocated(t *testing.T) {
	r := each(one("r", limit.Bucket(1_000_000, limit.Second, 1_000_000), limit.Slots(1000)), sluice.Subject)
	granting := engine(t, r, queued(one("all", limit.Slots(1000)), sluice.Queue{}))
	refusing := engine(t, each(one("r", limit.Window(0, limit.Hour)), sluice.Subject))
	call := sluice.Call{Subject: "user:alice"}
	var d sluice.Decision
	for name, f := range map[string]func(){
		"Try granted": func() {
			if ok, err := granting.Try(background, &call, &d); !ok || err != nil {
				t.Fatal(ok, err)
			}
			d.Admission().Release()
		},
		"Try refused": func() {
			if ok, err := refusing.Try(background, &call, &d); ok || err != nil {
				t.Fatal(ok, err)
			}
			d.Refusal()
		},
		"Admit": func() {
			adm, err := granting.Admit(background, call)
			if err != nil {
				t.Fatal(err)
			}
			adm.Release()
		},
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
