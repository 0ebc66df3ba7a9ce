package llm

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// A charge is an admission with what was taken for it. Whoever made it closes it, once.
type charge struct {
	admission sluice.Admission
	tokens    int64 // that were taken
	closed    atomic.Bool
	log       *slog.Logger
}

// settleTime bounds a settlement, which must not end with the client.
const settleTime = 5 * time.Second

// close settles the charge and gives back what is held. Only the first call counts.
func (c *charge) close(used sluice.Cost) {
	if c == nil || c.closed.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := c.admission.Settle(ctx, used); err != nil {
		c.log.Error("llm: a request could not be settled; what was reserved stays taken until time returns it", "error", err)
	}
	c.admission.Release()
}
