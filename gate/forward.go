package gate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// forward hands an admitted request to its handler.
func (v *visit) forward() {
	next, r := v.phases.next, v.r
	limited := v.phases.identity && !v.spot.excluded && !v.set.o.Disabled
	v.outcome = v.passing(limited)
	// Only then may an answer turn out to be a stream that is refused.
	mayRefuse := limited && v.gate.outlook().own("stream")
	switch {
	case next != nil:
		r = v.marked(mayRefuse)
	case v.spot.upstream == nil:
		v.refuseRequest(http.StatusNotFound, "no upstream serves this host and path")
		return
	case mayRefuse:
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		next = v.spot.upstream
	default:
		next = v.spot.upstream
	}
	if !limited && (v.outcome == "" || v.set.o.Observe.Answered == nil) {
		next.ServeHTTP(v.w, r)
		return
	}
	if v.out == nil {
		v.out = new(writer)
	}
	v.out.ResponseWriter, v.out.visit = v.w, v
	next.ServeHTTP(v.out, r)
	v.out.finish()
}

// passing returns the outcome of a request that goes to its handler. What comes of one
// that passes the first phase alone is for the second to tell.
func (v *visit) passing(limited bool) Outcome {
	switch {
	case limited:
		return Allowed
	case v.phases.identity:
		return Bypassed
	}
	return ""
}

// marked returns the request with a note of what it has been through, for a gate that
// is mounted once more, and for [PrincipalFrom]. If its answer may be refused its
// context can be ended.
func (v *visit) marked(mayRefuse bool) *http.Request {
	p, r, ctx := v.past, v.r, v.r.Context()
	if mayRefuse {
		ctx, v.cancel = context.WithCancel(ctx)
	}
	switch {
	case p == nil:
		p = &past{Context: ctx, gate: v.gate, client: v.client}
		v.out = &p.out
		r = r.WithContext(p)
	case v.cancel != nil:
		r = r.WithContext(ctx)
	}
	p.preAuth = p.preAuth || v.phases.preAuth
	p.identity = p.identity || v.phases.identity
	if v.found.Found() {
		who := v.found.Principal // the visit's memory is used again
		p.principal = &who
	}
	return r
}

// visitKey is the context key of the visit in a request to an upstream.
type visitKey struct{}

// admitAnswer is asked about the head of an upstream's answer before the client gets
// any of it, and reports false if it has been refused: then the answer is given up.
func admitAnswer(ctx context.Context, h http.Header) bool {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v == nil || v.beginStream(h)
}

// errRefused is what a handler gets that goes on writing after its answer was refused.
var errRefused = errors.New("gate: the stream was refused, and nothing more is sent")

// A writer is the response as the handler sees it. It adds what the answer tells about
// limits and notices streams. It is one request's and is never used again, because a
// handler may wrongly keep it; when the visit is over it only passes things on.
type writer struct {
	http.ResponseWriter
	visit   *visit // nil when it is over
	wrote   bool
	refused bool // a refusal has been sent instead of the handler's answer
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	informational := status < 200 && status != http.StatusSwitchingProtocols
	if w.wrote || informational || w.visit == nil {
		if !w.refused {
			w.ResponseWriter.WriteHeader(status)
		}
		return
	}
	w.wrote = true
	w.visit.reply.status = status
	if !w.visit.beginStream(w.Header()) {
		// The handler may not look at errors: its context ends, too.
		w.refused = true
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		w.visit.cancel()
		return
	}
	w.visit.tell(w.Header(), status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.refused {
		return 0, errRefused
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets the server use the kernel's way from a file to the connection.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if to, ok := w.ResponseWriter.(io.ReaderFrom); ok && !w.refused {
		return to.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{w}, r)
}

// Flush is for handlers that do not use [http.ResponseController].
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError sends what has been written so far.
func (w *writer) FlushError() error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.refused {
		return errRefused
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands over the connection. That of a WebSocket is watched.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil || w.visit == nil {
		return c, rw, err
	}
	responded := w.wrote
	w.wrote = true
	w.visit.reply.status = http.StatusSwitchingProtocols
	return w.visit.watch(c, rw, responded)
}

// finish sees to it that an answer without a body tells about limits, too.
func (w *writer) finish() {
	if !w.wrote && w.visit != nil && w.visit.reply.status == 0 {
		w.visit.reply.status = http.StatusOK // net/http will send it
		w.visit.tell(w.Header(), http.StatusOK)
	}
}

// forget parts the writer from its visit.
func (w *writer) forget() { w.visit = nil }
