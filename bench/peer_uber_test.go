package bench

import (
	"context"
	"testing"

	"go.uber.org/ratelimit"
)

// go.uber.org/ratelimit has no keys and never refuses; it waits.
func init() {
	enter(contestant{
		name:    "uber",
		unkeyed: true,
		blocks:  true,
		keyed: func(_ testing.TB, q quota) worker {
			l := ratelimit.New(int(q.n), ratelimit.Per(q.per))
			return shared(func(string) bool { l.Take(); return true })
		},
		pace: func(_ testing.TB, perSecond int) func(context.Context) error {
			l := ratelimit.New(perSecond, ratelimit.WithoutSlack)
			return func(context.Context) error { l.Take(); return nil }
		},
	})
}
