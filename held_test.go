package sluice_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &sluice.Policy{Rules: []sluice.Rule{
			{ID: "kept", Limits: []sluice.Limit{{Limit: limit.Slots(5)}}},
			{ID: "freed", OnTimeout: sluice.Free, Limits: []sluice.Limit{{Limit: limit.Slots(5)}}},
			{ID: "brief", MaxHold: time.Minute, Limits: []sluice.Limit{{Limit: limit.Slots(5)}}},
			{ID: "rate", Limits: []sluice.Limit{{Limit: limit.Window(9, limit.Hour)}}},
		}}
		ctl, err := sluice.Open(policy, memory.New(memory.Options{}), sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := func(step string, kept, freed, brief int) {
			t.Helper()
			h := ctl.Held()
			if h["kept"] != kept || h["freed"] != freed || h["brief"] != brief || h["rate"] != 0 {
				t.Errorf("%s: %v; want kept %d, freed %d, brief %d", step, h, kept, freed, brief)
			}
		}
		admit := func(id string) sluice.Admission {
			t.Helper()
			adm, err := ctl.Admit(context.Background(), sluice.Call{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			return adm
		}
		want("at first", 0, 0, 0)
		first, second := admit(""), admit("named")
		want("two calls", 2, 2, 2)
		admit("named").Release() // the same call once more
		want("a replay was released, and its grant with it", 1, 1, 1)
		second.Release()
		want("released twice, counted once", 1, 1, 1)
		first.Abandon()
		want("abandoned", 1, 0, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		want("past MaxHold", 1, 0, 0)
		if err := ctl.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
		want("reloaded", 1, 0, 0)
		first.Release()
		want("all released", 0, 0, 0)
	})
}
