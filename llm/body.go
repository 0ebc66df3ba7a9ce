package llm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sluicegate/sluice/llm/dialect"
)

// longestModel bounds the name of a model, which is a key of rules and of what is learned.
const longestModel = 256

// read reads the body, as far as it may be long, and what it asks for.
func (x *exchange) read() *dialect.Fault {
	if f := x.readable(); f != nil {
		return f
	}
	body, err := x.readAll(x.s.MaxBody)
	switch {
	case errors.Is(err, errCrowded):
		return &dialect.Fault{Status: http.StatusServiceUnavailable, Code: "crowded", Wait: time.Second, Message: "The gateway holds as many bodies as it may."}
	case errors.Is(err, errLarge):
		return x.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &dialect.Fault{Status: http.StatusRequestTimeout, Code: "body-late", Message: "The body did not arrive in time."}
	case err != nil:
		return &dialect.Fault{Status: http.StatusBadRequest, Code: "body-unreadable", Message: "The body could not be read to its end.", Useless: true}
	}
	ask, err := dialect.Read(x.route, body)
	if err == nil && (len(ask.Model) > longestModel || !dialect.Sane(ask.Model)) {
		return &dialect.Fault{Status: http.StatusBadRequest, Code: "malformed", Message: "The model's name is none.", Useless: true}
	}
	if err != nil && !x.s.Malformed {
		return &dialect.Fault{Status: http.StatusBadRequest, Code: "malformed", Useless: true,
			Message: "The body is no JSON object, or has a field that counts twice."}
	}
	if err != nil {
		ask = dialect.Opaque(x.route, body)
	}
	x.ask = ask
	return nil
}

// readable says what is wrong with a body before any of it is read. One that is compressed
// would be counted by less than what the provider sees.
func (x *exchange) readable() *dialect.Fault {
	if x.r.ContentLength > x.s.MaxBody {
		return x.tooLarge()
	}
	for _, coding := range x.r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return &dialect.Fault{Status: http.StatusUnsupportedMediaType, Code: "body-encoded", Useless: true,
				Message: "The body is compressed; send it as it is."}
		}
	}
	return nil
}

func (x *exchange) tooLarge() *dialect.Fault {
	return &dialect.Fault{Status: http.StatusRequestEntityTooLarge, Code: "body-too-large", Useless: true,
		Message: fmt.Sprintf("The body has more than %d bytes; llm.bodyBytes says how many it may have.", x.s.MaxBody)}
}

var (
	errLarge   = errors.New("llm: the body is too large")
	errCrowded = errors.New("llm: too many bodies are held")
)

// believed is the size that a body may say that it has before memory is taken for it.
const believed = 1 << 20

// readAll reads a body of at most most bytes.
func (x *exchange) readAll(most int64) ([]byte, error) {
	r := x.r
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	in := io.LimitReader(weighed{r.Body, x}, most+1)
	if n := r.ContentLength; n > 0 && n <= believed {
		body := make([]byte, n)
		_, err := io.ReadFull(in, body)
		return body, err
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(believed)
	}
	_, err := b.ReadFrom(in)
	if int64(b.Len()) > most {
		return nil, errLarge
	}
	return b.Bytes(), err
}

// A weighed reads a body and counts it among those that are held. What has arrived counts, and
// not what is announced, or who announces much would keep others out.
type weighed struct {
	io.Reader
	x *exchange
}

func (w weighed) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.x.weight += int64(n)
	if w.x.s.weight.Add(int64(n)) > w.x.s.MaxBodies {
		return 0, errCrowded // whatever it is, it is not wanted
	}
	return n, err
}

// drop lets go of the body.
func (x *exchange) drop() {
	x.s.weight.Add(-x.weight)
	x.weight = 0
}
