package front

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// streamable is Streamable HTTP, of the era that the request belongs to.
func (v *visit) streamable() *fault {
	if f := v.enter(); f != nil {
		return f
	}
	if v.r.Method == http.MethodPost {
		return v.post()
	}
	version, f := v.version(jsonrpc.ID{})
	switch {
	case f != nil:
		return f
	case protocol.EraOf(version) == protocol.Modern:
		return notAllowed(http.MethodPost)
	case v.r.Method == http.MethodGet:
		return v.listen(version)
	case v.r.Method == http.MethodDelete:
		return v.quit(version)
	}
	return notAllowed("GET, POST, DELETE")
}

func (v *visit) post() *fault {
	if !v.f.flights.enter() {
		return busy("too many requests are under way")
	}
	defer v.f.flights.leave()
	m, f := v.read()
	if f != nil {
		return f
	}
	version, f := v.version(m.ID)
	switch {
	case f != nil:
		return f
	case m.Kind == jsonrpc.Request && !accepts(v.r.Header, jsonType, eventsType):
		return invalid(http.StatusNotAcceptable, m.ID, "The client must accept both "+jsonType+" and "+eventsType)
	case isModern(m, version):
		return v.modern(m, version)
	}
	return v.legacy(m, version)
}

// version returns the revision that the request's header claims, empty if there is none.
func (v *visit) version(id jsonrpc.ID) (string, *fault) {
	version, ok := single(v.r.Header, protocol.HeaderVersion)
	if !ok {
		return "", invalid(http.StatusBadRequest, id, protocol.HeaderVersion+" was sent twice, with different values")
	}
	return version, nil
}

// isModern reports which era a request belongs to. The body says it, or the header, or that
// the method is one with which modern clients find out whom they talk to.
func isModern(m *jsonrpc.Message, version string) bool {
	stated, _ := stated(m)
	return protocol.EraOf(version) == protocol.Modern || protocol.EraOf(stated) == protocol.Modern || m.Method == "server/discover"
}

// stated returns the revision that a message says it is of.
func stated(m *jsonrpc.Message) (string, bool) {
	raw, ok := m.Param("_meta", protocol.MetaVersion)
	if !ok {
		return "", false
	}
	return jsonrpc.Text(raw)
}

// modern serves a request of the era without sessions. That its connection breaks is the
// client's cancelling it.
func (v *visit) modern(m *jsonrpc.Message, version string) *fault {
	core, f := v.connect(mcp.ConnectOptions{Transport: "http", Correlation: v.correlated()})
	if f != nil {
		return f
	}
	defer core.Close()
	switch m.Kind {
	case jsonrpc.Batch:
		return v.f.banned(core, m)
	case jsonrpc.Response:
		return invalid(http.StatusBadRequest, jsonrpc.ID{}, "A client of this revision sends no responses")
	}
	if f := mirrored(m, v.r.Header, version); f != nil {
		return f
	}
	x := &exchange{sender: v.sender(), out: &stream{most: v.f.o.Bounds.Backlog, all: &v.f.sessions.waits}}
	x.params = parameters(v.r.Header)
	return v.converse(&talk{core: core, x: x}, m)
}

// legacy serves a request in a session, or the one that starts it.
func (v *visit) legacy(m *jsonrpc.Message, version string) *fault {
	if version != "" && !protocol.Known(version) {
		return inEra(protocol.UnsupportedVersion, version, m.ID, "Unsupported protocol version; supported are "+
			strings.Join(protocol.VersionsOf(protocol.Legacy), ", "), nil)
	}
	if m.Kind == jsonrpc.Request && m.Method == "initialize" && len(v.r.Header.Values(protocol.HeaderSession)) == 0 {
		return v.start(m)
	}
	s, f := v.session(version, m.ID)
	if f != nil {
		return f
	}
	defer s.rest()
	return v.converse(&talk{core: s.core, session: s, x: v.inSession(s)}, m)
}

// inSession returns an exchange whose stream can be resumed until it has been answered.
func (v *visit) inSession(s *session) *exchange {
	st := s.newStream()
	return &exchange{sender: v.sender(), out: st, after: func() { s.forget(st) }}
}

// session finds the session that a request names, for the caller to let it rest when the
// request is over. id is the message's.
func (v *visit) session(version string, id jsonrpc.ID) (*session, *fault) {
	name, ok := single(v.r.Header, protocol.HeaderSession)
	switch {
	case !ok:
		return nil, invalid(http.StatusBadRequest, id, protocol.HeaderSession+" was sent twice, with different values")
	case name == "":
		return nil, invalid(http.StatusBadRequest, id, protocol.HeaderSession+" is missing; initialize gives one")
	}
	s := v.f.sessions.find(name, "http", v.slot, v.who)
	if s == nil || !s.use() {
		return nil, noSession(id)
	}
	if negotiated := s.core.Version(); version != "" && negotiated != "" && version != negotiated {
		s.rest()
		return nil, invalid(http.StatusBadRequest, id, protocol.HeaderVersion+" is not the version of this session, "+negotiated)
	}
	return s, nil
}

// start starts a session with the request that initializes it. One whose request fails, or
// whose client has gone meanwhile, never was.
func (v *visit) start(m *jsonrpc.Message) *fault {
	s, f := v.open("http", m.ID)
	if f != nil {
		return f
	}
	defer s.rest()
	return v.converse(&talk{core: s.core, session: s, x: v.inSession(s), starts: true}, m)
}

// listen gives a client the stream of what belongs to no request, or one that broke, from
// where it broke. A second stream of a session takes the place of the first: nothing may go
// out on two.
func (v *visit) listen(version string) *fault {
	if !accepts(v.r.Header, eventsType) {
		return invalid(http.StatusNotAcceptable, jsonrpc.ID{}, "The client must accept "+eventsType)
	}
	s, f := v.session(version, jsonrpc.ID{})
	if f != nil {
		return f
	}
	defer s.rest()
	st, after := s.push, int64(-1)
	if last := v.r.Header.Get("Last-Event-ID"); last != "" {
		id, n, ok := parseEventID(last)
		if ok {
			st, ok = s.resume(id)
		}
		if !ok {
			return invalid(http.StatusBadRequest, jsonrpc.ID{}, "Nothing is kept of what came after this Last-Event-ID")
		}
		after = n
	}
	o := st.openAfter(after)
	defer o.close()
	v.stream(o, prime(o, s.core.Version()), s.end)
	return nil
}

// quit ends a session.
func (v *visit) quit(version string) *fault {
	s, f := v.session(version, jsonrpc.ID{})
	if f != nil {
		return f
	}
	s.rest()
	s.close()
	v.w.WriteHeader(http.StatusNoContent)
	return nil
}

// An event's id names its stream and its place there: it has to be unique in its session.
func eventID(stream, n int64) string {
	return strconv.FormatInt(stream, 10) + "-" + strconv.FormatInt(n, 10)
}

func parseEventID(s string) (stream, n int64, ok bool) {
	a, b, ok := strings.Cut(s, "-")
	stream, err := strconv.ParseInt(a, 10, 64)
	n, err2 := strconv.ParseInt(b, 10, 64)
	return stream, n, ok && err == nil && err2 == nil && stream >= 0 && n >= 0
}
