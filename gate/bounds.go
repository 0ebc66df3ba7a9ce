package gate

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/gate/upstream"
)

var errUnclean = errors.New("the path is not spelt plainly")

// bound keeps a request's body within bounds, and removes method overrides that nobody
// honours. It reports false if the request has been answered.
func (v *visit) bound() bool {
	if v.set.o.MethodOverride == StripOverride {
		for _, name := range overrides {
			delete(v.r.Header, name)
		}
	}
	r, b := v.r, &v.set.o.Bounds
	if r.Body == nil || r.Body == http.NoBody || b.BodyBytes == nil && b.BodyTimeout <= 0 {
		return true
	}
	if most := b.BodyBytes; most != nil {
		if r.ContentLength > *most {
			if r.ProtoMajor == 1 {
				v.w.Header().Set("Connection", "close") // what follows is not worth reading
			}
			v.refuseRequest(http.StatusRequestEntityTooLarge, "the body is too large")
			return false
		}
		r.Body = http.MaxBytesReader(v.w, r.Body, *most)
	}
	if b.BodyTimeout > 0 {
		v.hurry(b.BodyTimeout)
	}
	return true
}

// A timedBody is a body that must have arrived by a time, however slowly it comes.
type timedBody struct {
	io.ReadCloser
	late atomic.Bool
}

// wasLate reports whether the time for the body was up before it had arrived. The
// server then takes the client for gone, and which error a proxy gets is chance.
func (v *visit) wasLate() bool { return v.body != nil && v.body.late.Load() }

// hurry gives the request's body a time to have arrived by.
func (v *visit) hurry(d time.Duration) {
	if http.NewResponseController(v.w).SetReadDeadline(time.Now().Add(d)) != nil {
		return // a server that has no deadlines
	}
	v.body = &timedBody{ReadCloser: v.r.Body}
	v.r.Body = v.body
}

// Read tells a body that is late from one that breaks off. The server itself lifts the
// deadline with the body's last byte.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.late.Store(true)
		err = upstream.ErrBodyTimeout
	}
	return n, err
}
