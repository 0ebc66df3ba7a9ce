package gate

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// forward hands an admitted request to its handler.
func (v *visit) forward() {
	next, r := v.phases.next, v.r
	switch {
	case next != nil:
		r = v.marked()
	case v.spot.upstream == nil:
		v.refuseRequest(http.StatusNotFound, "no upstream serves this host and path")
		return
	default:
		next = v.spot.upstream
	}
	if v.spot.excluded || v.set.o.Disabled || !v.phases.identity {
		next.ServeHTTP(v.w, r)
		return
	}
	v.out = &writer{ResponseWriter: v.w, visit: v}
	next.ServeHTTP(v.out, r)
	v.out.finish()
}

// marked returns the request with a note of what it has been through, for a gate that
// is mounted once more, and for [PrincipalFrom].
func (v *visit) marked() *http.Request {
	p, r := v.past, v.r
	if p == nil {
		p = &past{Context: r.Context(), gate: v.gate, client: v.client}
		r = r.WithContext(p)
	}
	p.preAuth = p.preAuth || v.phases.preAuth
	p.identity = p.identity || v.phases.identity
	if v.principal != nil {
		p.principal = v.principal
	}
	return r
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
	if !w.visit.beginStream(w.Header()) {
		w.refused = true
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
	return w.visit.watch(c, rw, responded)
}

// finish sees to it that an answer without a body tells about limits, too.
func (w *writer) finish() {
	if !w.wrote && w.visit != nil {
		w.visit.tell(w.Header(), http.StatusOK)
	}
}

// forget parts the writer from its visit.
func (w *writer) forget() { w.visit = nil }
