package gate

import (
	"errors"
	"io"
	"net/http"
	"os"
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
			v.w.Header().Set("Connection", "close") // what follows is not worth reading
			v.refuseRequest(http.StatusRequestEntityTooLarge, "the body is too large")
			return false
		}
		r.Body = http.MaxBytesReader(v.w, r.Body, *most)
	}
	if b.BodyTimeout > 0 {
		r.Body = newTimedBody(v.w, r.Body, b.BodyTimeout)
	}
	return true
}

// A timedBody is a body that must have arrived by a time, however slowly it comes.
type timedBody struct {
	io.ReadCloser
	deadline *http.ResponseController
}

func newTimedBody(w http.ResponseWriter, body io.ReadCloser, d time.Duration) io.ReadCloser {
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(d)) != nil {
		return body // a server that has no deadlines
	}
	return &timedBody{body, c}
}

// Read lifts the deadline with the last byte: a handler may take longer than a body,
// and the server goes on reading to notice that the client has gone.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		_ = b.deadline.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = upstream.ErrBodyTimeout
	}
	return n, err
}

func (b *timedBody) Close() error {
	_ = b.deadline.SetReadDeadline(time.Time{})
	return b.ReadCloser.Close()
}
