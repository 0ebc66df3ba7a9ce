package front

import (
	"errors"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

const (
	jsonType   = "application/json"
	eventsType = "text/event-stream"
)

// read reads the one message of a POST, or the batch.
func (v *visit) read() (*jsonrpc.Message, *fault) {
	media, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err != nil || media != jsonType || v.r.Header.Get("Content-Encoding") != "" {
		return nil, invalid(http.StatusUnsupportedMediaType, jsonrpc.ID{}, "The body must be "+jsonType+" without a content encoding")
	}
	body, f := v.body()
	if f != nil {
		return nil, f
	}
	m, e := jsonrpc.Parse(body, v.f.o.Bounds.Frame)
	if e != nil {
		return nil, unreadable(e)
	}
	return m, nil
}

// limit gives the body its time, also of a request that is refused before anybody reads it:
// the server reads what is left of it before it sends the answer. It lifts the deadline itself
// with the last byte.
func (v *visit) limit() {
	if v.r.ContentLength != 0 {
		_ = v.deadl.SetReadDeadline(time.Now().Add(v.f.o.Bounds.BodyTimeout)) // as in hurry
	}
}

// body reads the body within its bounds of size and time.
func (v *visit) body() ([]byte, *fault) {
	most := v.f.o.Bounds.Frame.MaxBytes
	tooLarge := func() *fault {
		return invalid(http.StatusRequestEntityTooLarge, jsonrpc.ID{}, "The message is larger than "+strconv.Itoa(most)+" bytes")
	}
	if v.r.ContentLength > int64(most) {
		if v.r.ProtoMajor == 1 {
			v.w.Header().Set("Connection", "close") // what follows is not worth reading
		}
		return nil, tooLarge()
	}
	body, err := v.load.read(http.MaxBytesReader(v.w, v.r.Body, int64(most)), v.f.room)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return nil, tooLarge()
	case errors.Is(err, errCrowded):
		return nil, crowded()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, invalid(http.StatusRequestTimeout, jsonrpc.ID{}, "The message did not arrive in time")
	case err != nil:
		return nil, invalid(http.StatusBadRequest, jsonrpc.ID{}, "The message broke off")
	}
	return body, nil
}

// accepts reports whether a request takes all the given types as its answer (RFC 9110,
// 12.5.1). Without Accept it takes any.
func accepts(h http.Header, types ...string) bool {
	lines := h["Accept"]
	if len(lines) == 0 {
		return true
	}
	for _, t := range types {
		if !acceptsOne(lines, t) {
			return false
		}
	}
	return true
}

func acceptsOne(lines []string, media string) bool {
	group, _, _ := strings.Cut(media, "/")
	best, ok := -1, false // the most exact range decides
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(element, ";")
			rank := -1
			switch strings.ToLower(strings.TrimSpace(name)) {
			case media:
				rank = 2
			case group + "/*":
				rank = 1
			case "*/*":
				rank = 0
			}
			if rank > best {
				best, ok = rank, !isZeroWeight(params)
			}
		}
	}
	return ok
}

// isZeroWeight reports whether the parameters of a media range say that it is not wanted.
func isZeroWeight(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err != nil || q == 0
		}
	}
	return false
}

// single returns the one value of a header that has no commas in it, empty if it was not
// sent. Some clients send one twice, in two lines or in one; that is no harm as long as both
// are the same. It reports false if they are not.
func single(h http.Header, name string) (string, bool) {
	value := ""
	for _, line := range h.Values(name) {
		for v := range strings.SplitSeq(line, ",") {
			v = strings.TrimSpace(v)
			if value != "" && v != value {
				return "", false
			}
			value = v
		}
	}
	return value, true
}
