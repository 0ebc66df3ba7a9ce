package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/policy"
)

// A TakeoverMode says when a provider may take a slot that another connection holds.
type TakeoverMode uint8

// The modes. Only the same principal may ever take over.
const (
	TakeoverDead   TakeoverMode = iota // when the one that holds it does not answer any more
	TakeoverNever                      // not before it has gone
	TakeoverAlways                     // at once
)

// Errors of Register.
var (
	ErrTaken   = errors.New("mcp: the slot is taken by a provider that is alive")
	ErrForeign = errors.New("mcp: the slot is another provider's")
)

// Register gives a slot to a provider that has dialled in as who, over l; nil is
// one that has not said who it is. What the link
// receives goes to the inbox from then on; the handshake follows in the background. It
// returns ErrNoSlot, ErrTaken or ErrForeign if the provider may not have the slot.
func (b *Broker) Register(name string, who *policy.Principal, l link.Link) (link.Inbox, error) {
	sl := b.dialledSlot(name, who)
	if sl == nil {
		return nil, ErrNoSlot
	}
	k := newConn(sl, who)
	k.link = l
	if err := sl.claim(k); err != nil {
		b.noteTakeover(k, err)
		return nil, err
	}
	if b.dialledSlot(name, who) != sl { // new options have come meanwhile, and have not seen k
		k.Down(errEnded)
		return nil, ErrNoSlot
	}
	b.running.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, sl.connectTimeout())
		defer cancel()
		err := sl.welcome(ctx, k)
		sl.tried(err)
		b.noteTakeover(k, err)
		if err != nil {
			b.log.Warn("mcp: a provider's handshake failed", "slot", sl.name, "provider", k.providerName(), "error", err)
			_ = l.Close()
		}
	})
	return k, nil
}

// claim gives the slot to k, and ends the connection that holds it if its provider may be
// taken over.
func (sl *slot) claim(k *conn) error {
	for {
		sl.mu.Lock()
		holder := sl.holder
		if holder == nil {
			sl.holder = k
			sl.mu.Unlock()
			return nil
		}
		sl.mu.Unlock()
		if holder.provider == nil || k.provider == nil || holder.provider.ID != k.provider.ID {
			return ErrForeign
		}
		if !sl.yields(holder) {
			return ErrTaken
		}
		holder.Down(errReplaced) // which leaves the slot to the next
		_ = holder.link.Close()
	}
}

// yields reports whether a connection may be replaced by another of its provider's.
func (sl *slot) yields(k *conn) bool {
	switch sl.b.settings().Takeover {
	case TakeoverNever:
		return false
	case TakeoverAlways:
		return true
	}
	ctx, cancel := context.WithTimeout(sl.b.ctx, probeWait)
	defer cancel()
	p, ok := k.link.(link.Prober)
	return ok && !p.Alive(ctx)
}

var errReplaced = errors.New("mcp: another connection of the provider has taken the slot")

const probeWait = 3 * time.Second

func (b *Broker) noteTakeover(k *conn, err error) {
	e := audit.Event{Action: audit.Takeover, Outcome: pick(err == nil, audit.Granted, audit.Refused), Allowed: err == nil, Slot: k.slot.name, Identity: k.providerName()}
	if err != nil {
		e.Error = err.Error()
	}
	b.note(e)
}
