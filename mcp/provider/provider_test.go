package provider_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/provider"
)

func TestOptions(t *testing.T) {
	good := provider.Options{URL: "ws://broker", Slot: "site", Handler: tools(nil)}
	for want, change := range map[string]func(*provider.Options){
		"Options.URL has to be":     func(o *provider.Options) { o.URL = "tcp://broker" },
		"Options.URL must not":      func(o *provider.Options) { o.URL = "ws://broker/?token=x" },
		"Options.Slot":              func(o *provider.Options) { o.Slot = "a/b" },
		"Options.Handler":           func(o *provider.Options) { o.Handler = nil },
		"Options.URL must not carr": func(o *provider.Options) { o.URL = "ws://user:secret@broker" },
	} {
		o := good
		change(&o)
		if _, err := provider.Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// said is a log of which the first line is kept.
type said chan string

func (s said) Write(line []byte) (int, error) {
	select {
	case s <- string(line):
	default:
	}
	return len(line), nil
}

func TestDial(t *testing.T) {
	t.Run("a secret that is not accepted is an error at once", func(t *testing.T) {
		r := newRig(t)
		r.open()
		o := r.options(tools(nil))
		o.Secret = "a guess"
		if _, err := provider.Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), "does not accept the secret") || strings.Contains(err.Error(), o.Secret) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("4.2.11 so is a declaration, with everything that is wrong with it", func(t *testing.T) {
		r := newRig(t)
		r.open()
		o := r.options(tools(nil))
		o.Declaration = &provider.Declaration{Version: "1", Domain: "mcp", Namespace: "/elsewhere"}
		_, err := provider.Dial(t.Context(), o)
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.Code != -32602 || len(e.Problems) < 3 || !strings.Contains(err.Error(), "/elsewhere") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("so is a slot that another provider has", func(t *testing.T) {
		r := newRig(t)
		r.open()
		r.dial(r.options(tools(nil)))
		o := r.options(tools(nil))
		o.Secret = "another secret of another provider"
		if _, err := provider.Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another provider's") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a broker that is not there is waited for", func(t *testing.T) {
		r := newRig(t)
		r.open()
		r.shut()
		dialled, tried := make(chan error, 1), make(said, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := r.options(tools(nil))
		o.Logger = slog.New(slog.NewTextHandler(tried, nil))
		go func() {
			_, err := provider.Dial(ctx, o)
			dialled <- err
		}()
		if got := <-tried; !strings.Contains(got, "connection refused") || strings.Contains(got, secret) {
			t.Errorf("the log says %s", got)
		}
		r.open()
		if err := <-dialled; err != nil {
			t.Error(err)
		}
	})
	t.Run("until the context ends", func(t *testing.T) {
		r := newRig(t)
		r.open()
		r.shut()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := provider.Dial(ctx, r.options(tools(nil))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("Close ends it", func(t *testing.T) {
		r := newRig(t)
		r.open()
		p := r.dial(r.options(tools(nil)))
		p.Close()
		<-p.Done()
		if err := p.SettleBudget(t.Context(), provider.Settlement{}); !errors.Is(err, provider.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestReconnect breaks the connection while a tool works with a budget.
func TestReconnect(t *testing.T) {
	r := newRig(t, budget("ops", 10, limit.Hour))
	r.open()
	working, broken := make(chan error, 1), make(chan struct{})
	worked := make(chan error, 1)
	var p *provider.Provider
	first := true
	p = r.dial(r.options(worker(func(ctx context.Context, q *provider.Request) (*provider.Result, error) {
		c, ok := q.Caller()
		if !ok {
			t.Error("no caller reference: the provider has not declared again")
		}
		if !first {
			return provider.Text("again"), nil
		}
		first = false
		err := p.WithBudget(ctx, query(c, 3), func(ctx context.Context, _ *provider.Grant) error {
			working <- nil
			<-ctx.Done() // the connection has ended
			<-broken
			_, err := p.ReserveBudget(context.WithoutCancel(ctx), query(c, 1))
			worked <- err
			return nil
		})
		worked <- err
		return provider.Text("never heard"), nil
	})))
	r.connected(1)
	x := r.call("site", "work", `{}`)
	<-working
	r.shut()
	if a := x.wait(); a.Error == nil || !strings.Contains(a.Error.Message, "disconnected") {
		t.Errorf("C-45 got %+v", a)
	}
	close(broken)
	if err := <-worked; !errors.Is(err, provider.ErrLost) {
		t.Errorf("a reservation without a connection: %v", err)
	}
	r.open()
	if err := <-worked; err != nil {
		t.Errorf("M-113 C-77 a provider that has come back settles: %v", err)
	}
	r.connected(2)
	if e := r.last(audit.Settle); e.Outcome != audit.Settled || e.Result != "success" {
		t.Errorf("settled as %+v", e)
	}
	if got := r.call("site", "work", `{}`).text(); got != "again" {
		t.Errorf("got %s", got)
	}
}

func TestDeclare(t *testing.T) {
	r := newRig(t)
	r.open()
	o := r.options(tools(nil))
	o.Declaration = nil
	p := r.dial(o)
	if _, err := p.Authorize(t.Context(), provider.CallerReference{}, provider.Check{Capability: "plant.run", Resource: "x", Path: "/site/x"}); err == nil {
		t.Error("C-60 nothing is declared")
	}
	if err := p.Declare(t.Context(), &provider.Declaration{}); err == nil {
		t.Error("an empty declaration is accepted")
	}
	if err := p.Declare(t.Context(), r.options(nil).Declaration); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Authorize(t.Context(), provider.CallerReference{}, provider.Check{Capability: "plant.run", Resource: "x", Path: "/site/x"}); err != nil {
		t.Error(err)
	}
	r.connected(1)
	r.shut()
	r.open()
	r.connected(2)
	if _, err := p.Authorize(t.Context(), provider.CallerReference{}, provider.Check{Capability: "plant.run", Resource: "x", Path: "/site/x"}); err != nil {
		t.Errorf("it has not been declared again: %v", err)
	}
}

// A pauses is a log that keeps how long a provider waits each time.
type pauses struct {
	slog.Handler
	next chan time.Duration
}

func (p pauses) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "next" {
			p.next <- a.Value.Duration()
		}
		return true
	})
	return nil
}

// TestPauses has a broker that ends each connection after it has greeted the provider, as one
// does whose handshake fails, or that gives the slot to the next in line at once.
func TestPauses(t *testing.T) {
	const first, longest = 10 * time.Millisecond, 500 * time.Millisecond
	kept := pauses{slog.NewTextHandler(io.Discard, nil), make(chan time.Duration, 100)}
	o := provider.Options{Slot: "site", Secret: secret, Handler: &provider.Server{}, FirstPause: first, LongestPause: longest, Logger: slog.New(kept)}
	var n atomic.Int32
	o.URL = listen(t, func(b *peer) {
		b.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if n.Add(1) == 5 {
			<-time.After(2 * longest) // one that is good
		}
		_ = b.ws.CloseNow()
	})
	p, err := provider.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, most := range []time.Duration{first, 2 * first, 4 * first, 8 * first, first, 2 * first} {
		if got := <-kept.next; got < most/2 || got > most {
			t.Errorf("M-113 pause %d is %v, want %v to %v", i+1, got, most/2, most)
		}
	}
}
