package mcp

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/mcp/link"
)

// What clients are told of a provider that does not answer, in words and for programs.

// absent says in words that no provider is there.
func (sl *slot) absent() string {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	text := fmt.Sprintf("Provider %q is not connected", sl.name)
	if sl.conf().Dialer != nil && !sl.next.IsZero() {
		if wait := time.Until(sl.next); wait > 0 {
			text += fmt.Sprintf("; the next attempt is in %v", wait.Round(time.Second/10))
		}
	}
	return text
}

func (sl *slot) lateText(ms int64) string {
	return fmt.Sprintf("Provider %q did not respond within %dms", sl.name, ms)
}

func (sl *slot) largeText(n int) string {
	return fmt.Sprintf("Provider %q answered with %d bytes, which are more than the %d that maxResultBytes allows", sl.name, n, sl.maxResult())
}

func (sl *slot) lostText(f link.Failure) string {
	if f.NotRun {
		return fmt.Sprintf("Provider %q could not be reached", sl.name)
	}
	if long, ok := errors.AsType[*link.TooLong](f); ok {
		return fmt.Sprintf("Provider %q answered with more than the %d bytes that maxFrameBytes allows", sl.name, long.Limit)
	}
	return fmt.Sprintf("Provider %q disconnected before it answered; the outcome is unknown", sl.name)
}

func lostReason(f link.Failure) reason {
	r := reason{Reason: pick(f.NotRun, "provider-unreachable", "provider-disconnected")}
	if _, long := errors.AsType[*link.TooLong](f); long {
		r.Reason = "result-too-large"
	}
	if f.RetryAfter > 0 {
		r.RetryAfterMs = f.RetryAfter.Milliseconds()
	}
	return r
}
