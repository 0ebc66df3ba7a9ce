package front

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// connect connects the client to the broker.
func (v *visit) connect(o mcp.ConnectOptions) (*mcp.Session, *fault) {
	core, err := v.f.o.Broker.Connect(v.slot, v.who, o)
	switch {
	case errors.Is(err, mcp.ErrNoSlot):
		return nil, notFound("there is no such slot")
	case err != nil:
		return nil, busy("the broker is stopping")
	}
	return core, nil
}

// open starts a session for the message with an id. It is in use until the caller lets it
// rest.
func (v *visit) open(transport string, id jsonrpc.ID) (*session, *fault) {
	s := v.f.sessions.newSession(transport, v.slot, v.who)
	core, f := v.connect(mcp.ConnectOptions{Transport: transport, Push: s.pushed, OneStream: transport != "http", Correlation: v.correlated()})
	if f != nil {
		return nil, f
	}
	s.core = core
	if full := v.f.sessions.add(s); full != nil {
		core.Close()
		return nil, busyFor(full.wait, id, full.why)
	}
	return s, nil
}

// receive takes a message of a client that has one stream for everything.
func (f *Front) receive(s *session, m *jsonrpc.Message, x *line) {
	if m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Batch {
		if f.draining.Load() || !f.flights.enter() {
			x.Answer(busyFor(time.Second, m.ID, "too many requests are under way, or the broker is stopping").err.Frame(), 0)
			return
		}
		x.flights = &f.flights
	}
	if m.Kind == jsonrpc.Batch {
		f.batch(s.core, m, &x.sender, x)
		return
	}
	s.core.Receive(m, x)
}

// events is the stream of HTTP with SSE, and the session that lives as long as it.
func (v *visit) events() *fault {
	if f := v.enter(); f != nil {
		return f
	}
	switch {
	case v.r.Method != http.MethodGet:
		return notAllowed(http.MethodGet)
	case !accepts(v.r.Header, eventsType):
		return invalid(http.StatusNotAcceptable, jsonrpc.ID{}, "The client must accept "+eventsType)
	}
	s, f := v.open("sse", jsonrpc.ID{})
	if f != nil {
		return f
	}
	defer s.close()
	o := s.push.open()
	defer o.close()
	endpoint := url.URL{Path: "/" + v.slot + "/messages", RawQuery: url.Values{"sessionId": {s.id}}.Encode()}
	v.stream(o, []byte("event: endpoint\ndata: "+endpoint.String()+"\n\n"), s.end)
	return nil
}

// message takes a message of HTTP with SSE. Its answer goes out on the stream, but for a
// denial: that is the status of the POST.
func (v *visit) message() *fault {
	if f := v.enter(); f != nil {
		return f
	}
	if v.r.Method != http.MethodPost {
		return notAllowed(http.MethodPost)
	}
	s := v.f.sessions.find(v.r.URL.Query().Get("sessionId"), "sse", v.slot, v.who)
	if s == nil {
		return noSession(jsonrpc.ID{})
	}
	m, f := v.read()
	if f != nil {
		return f
	}
	d := &denial{answered: make(chan struct{})}
	x := &line{sender: v.sender(), out: s.push, denial: d, load: v.load}
	v.load = load{}
	v.f.receive(s, m, x)
	frame := d.wait(v.r)
	v.hurry()
	if frame == nil {
		v.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	v.w.Header().Set("Content-Type", jsonType)
	v.w.Header().Set("Content-Length", strconv.Itoa(len(frame)))
	v.w.WriteHeader(http.StatusForbidden)
	_, _ = v.w.Write(frame) // the client may have gone
	return nil
}

// A denial lets the POST of HTTP with SSE tell of it by its own status. The nil denial takes
// nothing.
type denial struct {
	answered chan struct{} // closed with the answer

	mu    sync.Mutex
	over  bool
	frame []byte
}

// denialWithin is how long a POST waits for one: a policy is asked before anything that takes
// time.
const denialWithin = 50 * time.Millisecond

// denied is the code of a denial where HTTP with SSE is spoken.
var denied = func() string {
	e, _ := table.Error(protocol.Forbidden, protocol.V20241105, "", nil)
	return strconv.FormatInt(e.Code, 10)
}()

// take takes an answer, nil if there will be none, if it is a denial that is still waited for.
func (d *denial) take(frame []byte) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.answered)
	code, _ := jsonrpc.Lookup(frame, "error", "code")
	if d.over || string(code) != denied {
		return false
	}
	d.frame = frame
	return true
}

// wait returns the denial, or nil if there is none, or none in time.
func (d *denial) wait(r *http.Request) []byte {
	late := time.NewTimer(denialWithin)
	defer late.Stop()
	select {
	case <-d.answered:
	case <-late.C:
	case <-r.Context().Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return d.frame
}
