package cost

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// errOversize is a body that is longer than what is looked at.
var errOversize = errors.New("cost: the body is longer than what is looked at")

// Count counts r's body and puts it back, so that the next reader finds it whole. It
// may wait for the client. Its errors are [ErrTooLarge], [ErrMalformed], [ErrBatch],
// and those of reading the body.
func (o *Options) Count(r *http.Request) (Count, error) {
	if o.Extractor == None {
		return Count{Calls: o.least()}, nil
	}
	var extra int64
	if o.Extractor == GraphQL {
		// A server may read the document here, too.
		var err error
		if extra, err = o.inQuery(r); err != nil {
			return Count{}, err
		}
	}
	limit := o.Inspect
	if limit == 0 {
		limit = 64 << 10
	}
	body, err := Peek(r, limit)
	if err == nil {
		body, err = decoded(body, r.Header.Get("Content-Encoding"), limit)
	}
	if errors.Is(err, errOversize) {
		return o.Oversize()
	}
	if err != nil {
		return Count{}, err
	}
	c, err := o.Of(body, r.Header.Get("MCP-Protocol-Version"))
	if err != nil || extra == 0 {
		return c, err
	}
	if len(body) > 0 {
		extra += c.Calls
	}
	c.Calls = min(max(extra, o.least()), o.max())
	return c, nil
}

// inQuery counts a GraphQL document in the query string.
func (o *Options) inQuery(r *http.Request) (int64, error) {
	if q := r.URL.Query().Get("query"); q != "" {
		return document(q)
	}
	return 0, nil
}

// Peek reads at most limit bytes of r's body and puts back what it has read. A longer
// body is an error, and still whole.
func Peek(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, errOversize
	}
	size := r.ContentLength
	if size < 0 {
		size = 512
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	body := buf.Bytes()
	r.Body = &replay{Reader: io.MultiReader(bytes.NewReader(body), r.Body), Closer: r.Body}
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > limit:
		return nil, errOversize
	}
	return body, nil
}

// replay is a body whose beginning has been read.
type replay struct {
	io.Reader
	io.Closer
}

// decoded undoes a content coding. Nobody can count inside of an unknown one, or of
// one that unfolds to more than limit.
func decoded(body []byte, coding string, limit int64) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
	default:
		return nil, errOversize
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, ErrMalformed
	}
	plain, err := io.ReadAll(io.LimitReader(z, limit+1))
	switch {
	case int64(len(plain)) > limit:
		return nil, errOversize
	case err != nil:
		return nil, ErrMalformed
	}
	return plain, nil
}
