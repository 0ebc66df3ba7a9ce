package httplink

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/upstream"
)

var (
	// reopen is how long to wait before a broken answer is asked for, and relisten before the
	// stream for what belongs to no request is. The server's own wish comes first.
	reopen   = upstream.Backoff{Base: 100 * time.Millisecond, Max: 10 * time.Second}
	relisten = upstream.Backoff{Base: time.Second, Max: 30 * time.Second}
)

// maxVain is how often in a row a broken answer is asked for in vain.
const maxVain = 5

// listen keeps a stream open for what belongs to no request, if the server has one.
func (c *streamable) listen(ctx context.Context) {
	var at cursor
	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		a, s, err := c.resume(ctx, &at)
		switch {
		case err != nil:
		case a.isStream():
			_ = c.follow(a, &at).deliver(jsonrpc.ID{}, func() {})
			if time.Since(began) > relisten.Base {
				attempt = -1
			}
		default:
			_, f := c.refusal(a, s)
			if f.SessionGone {
				c.in.Lost(jsonrpc.ID{}, f)
			}
			if f.Status/100 == 2 || f.NotRun && f.Status != http.StatusTooManyRequests {
				return // it has none, or not for us
			}
			at.retry = max(at.retry, f.RetryAfter)
		}
		pause(ctx, relisten.Delay(max(attempt, 0), at.retry))
	}
}

// resume asks for a stream of events: from where one has broken, if the cursor knows that.
func (c *streamable) resume(ctx context.Context, at *cursor) (*answer, sent, error) {
	h, s := c.sent(jsonrpc.ID{}, "")
	if at.id != "" {
		h.Set("Last-Event-Id", at.id)
	}
	h.Set("Cache-Control", "no-store")
	a, err := c.do(ctx, http.MethodGet, c.url, nil, c.server.headTime(), merge(h))
	return a, s, err
}

// stream reads an answer that is a stream of events, and resumes it where it breaks. A
// server may also break it off on purpose and want us to ask again later (2025-11-25).
func (x *exchange) stream(a *answer, s sent) link.Failure {
	var at cursor
	err := x.follow(a, &at).deliver(x.m.ID, x.drain)
	for attempt, vain := 0, 0; x.open.Waits(x.m.ID); attempt++ {
		if at.id == "" || s.modern() || x.ctx.Err() != nil || vain == maxVain {
			return link.Failure{Err: x.errorf("the answer broke off: %w", err)}
		}
		pause(x.ctx, reopen.Delay(attempt, at.retry))
		next, sent, failed := x.resume(x.ctx, &at)
		switch {
		case failed != nil:
			vain, err = vain+1, failed
		case next.isStream():
			before := at.id
			vain, err = 0, x.follow(next, &at).deliver(x.m.ID, x.drain)
			if at.id != before {
				attempt = -1
			}
		default:
			_, f := x.refusal(next, sent)
			if f.NotRun && f.Status != http.StatusTooManyRequests || f.Status/100 == 2 {
				f.NotRun = false // the request was taken; only its stream is not found
				return f
			}
			vain, err = vain+1, f
		}
	}
	return link.Failure{Err: err}
}

// pause waits, or until the context is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
