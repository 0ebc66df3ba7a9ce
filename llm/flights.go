package llm

import (
	"context"
	"sync"
)

// flights are the exchanges that are under way.
type flights struct {
	mu     sync.Mutex
	list   map[*exchange]struct{}
	landed chan struct{} // closed when the list is empty, if anybody waits for that
}

func (f *flights) add(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list == nil {
		f.list = make(map[*exchange]struct{})
	}
	f.list[x] = struct{}{}
}

func (f *flights) remove(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.list, x)
	if len(f.list) == 0 && f.landed != nil {
		close(f.landed)
		f.landed = nil
	}
}

// wait waits until none is under way.
func (f *flights) wait(ctx context.Context) error {
	f.mu.Lock()
	if len(f.list) == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.landed == nil {
		f.landed = make(chan struct{})
	}
	landed := f.landed
	f.mu.Unlock()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// each calls visit for every exchange. It must be brief: nobody begins or ends meanwhile.
func (f *flights) each(visit func(*exchange)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.list {
		visit(x)
	}
}

// flight is what is shown of an exchange.
func (x *exchange) flight() Flight {
	f := Flight{Caller: x.who, Model: x.ask.Model, Operation: x.route.Operation, Stream: x.ask.Stream, Since: x.began}
	x.shown.Lock()
	defer x.shown.Unlock()
	f.Attempts = x.sent
	if x.at != nil {
		f.Provider, f.Credential = x.at.provider.Name, x.at.key.ID
	}
	return f
}

// show notes where an exchange is, for those who look on from another goroutine.
func (x *exchange) show(at *place) {
	x.shown.Lock()
	defer x.shown.Unlock()
	x.at, x.sent = at, x.sent+1
}
