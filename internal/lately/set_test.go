package lately

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSetKeepsMembersForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New[int](4, time.Second)
		s.Add(1)
		for _, step := range []struct {
			after time.Duration
			has   bool
		}{{0, true}, {999 * time.Millisecond, true}, {time.Second, true}, {time.Millisecond, false}} {
			time.Sleep(step.after)
			if got := s.Has(1); got != step.has {
				t.Errorf("after another %v: got %v, want %v", step.after, got, step.has)
			}
		}
		s.Add(2)
		s.Remove(2)
		if s.Has(2) {
			t.Error("a removed member is still there")
		}
		s.Add(3)
		time.Sleep(time.Hour)
		if s.Has(3) {
			t.Error("an hour later a member is still there")
		}
	})
}

func TestSetIsBounded(t *testing.T) {
	s := New[int](100, time.Hour)
	for i := range 100_000 {
		s.Add(i)
		if n := len(s.young) + len(s.old); n > 200 {
			t.Fatalf("after %d additions it holds %d members", i+1, n)
		}
		if !s.Has(i) {
			t.Fatalf("member %d, just added, is not there", i)
		}
	}
	if s.Has(0) {
		t.Error("the oldest member survived a flood")
	}
}
