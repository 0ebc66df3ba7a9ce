package bench

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/httprate"
)

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// httprate decides only together with its response headers: OnLimit is its
// innermost call.
func init() {
	enter(contestant{
		name:     "httprate",
		windowed: true,
		keyed: func(_ testing.TB, q quota) worker {
			l := httprate.NewRateLimiter(int(q.n), q.per)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			return shared(func(key string) bool {
				return !l.OnLimit(discard{http.Header{}}, r, key)
			})
		},
		guard: func(q quota, next http.Handler) http.Handler {
			return httprate.LimitBy(int(q.n), q.per, func(r *http.Request) (string, error) { return addressOf(r), nil })(next)
		},
	})
}
