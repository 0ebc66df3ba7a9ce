package llm

import "sync"

// flights are the exchanges that are under way.
type flights struct {
	mu   sync.Mutex
	list map[*exchange]struct{}
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
