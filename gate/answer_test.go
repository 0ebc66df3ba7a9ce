package gate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/wire"
)

// bucket is a rule of units a second and a burst.
func bucket(id string, perSecond, burst int64) sluice.Rule {
	r := perHour(id, 1, "http")
	r.Limits = []sluice.Limit{{Limit: limit.Bucket(perSecond, limit.Second, burst)}}
	return r
}

func TestAnswers(t *testing.T) {
	t.Run("B-14 B-W23 an admitted answer tells about limits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newGate(t, open(t, bucket("tier", 10, 20)), gate.Options{}).Handler(ok)
			resp := do(h, request("GET", "/"))
			expect(t, "status", resp.StatusCode, 200)
			expect(t, "limit", resp.Header.Get("X-RateLimit-Limit"), "20")
			expect(t, "remaining", resp.Header.Get("X-RateLimit-Remaining"), "19")
			expect(t, "reset", resp.Header.Get("X-RateLimit-Reset"), strconv.FormatInt(time.Now().Unix()+1, 10))
			expect(t, "field", resp.Header.Get("RateLimit"), `"tier";r=19;t=1`)
			expect(t, "policy", resp.Header.Get("RateLimit-Policy"), `"tier";q=20;w=2`)
		})
	})
	t.Run("B-15 B-16 B-17 B-18 the fourth of three is 429 with everything, and time pays back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newGate(t, open(t, bucket("tier", 2, 3)), gate.Options{Problem: wire.Spector()}).Handler(ok)
			get := func() *http.Request { return request("GET", "/api/x?key=1") }
			expectList(t, "statuses", statuses(h, get(), get(), get()), []int{200, 200, 200})
			resp := do(h, get())
			expect(t, "status", resp.StatusCode, 429)
			for name, want := range map[string]string{
				"Retry-After": "1", "X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "0",
				"Content-Type": "application/problem+json", "Cache-Control": "no-store",
				"X-RateLimit-Reset": strconv.FormatInt(time.Now().Unix()+1, 10),
			} {
				expect(t, name, resp.Header.Get(name), want)
			}
			var body map[string]any
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]any{
				"type": "urn:spector:error:rate-limit-exceeded", "title": "Too Many Requests", "status": 429.0,
				"instance": "/api/x", "retryAfterSeconds": 1.0,
			} {
				expect(t, name, body[name], want)
			}
			time.Sleep(500 * time.Millisecond)
			expectList(t, "half a second later", statuses(h, get(), get()), []int{200, 429})
		})
	})
	t.Run("I-066 I-068 I-069 I-070 Retry-After is whole seconds, what is left, and never 0", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := perHour("w", 1, "http")
			r.Limits = []sluice.Limit{{Limit: limit.Window(1, limit.Minute)}}
			h := newGate(t, open(t, r), gate.Options{}).Handler(ok)
			do(h, request("GET", "/"))
			for _, c := range []struct {
				sleep time.Duration
				want  string
			}{{0, "60"}, {50 * time.Second, "10"}, {9507 * time.Millisecond, "1"}, {492 * time.Millisecond, "1"}} {
				time.Sleep(c.sleep)
				expect(t, "Retry-After", do(h, request("GET", "/")).Header.Get("Retry-After"), c.want)
			}
			time.Sleep(time.Millisecond)
			expect(t, "status when it is over", do(h, request("GET", "/")).StatusCode, 200)
		})
	})
	t.Run("I-074 I-076 a refusal tells of all limits, and the wait of the refusing one", func(t *testing.T) {
		h := newGate(t, open(t, perHour("loose", 5, "http"), perHour("tight", 1, "http")), gate.Options{}).Handler(ok)
		do(h, request("GET", "/"))
		resp := do(h, request("GET", "/"))
		expect(t, "legacy limit", resp.Header.Get("X-RateLimit-Limit"), "1")
		expect(t, "policies", resp.Header.Get("RateLimit-Policy"), `"loose";q=5;w=3600, "tight";q=1;w=3600`)
		body, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(body), `"violated-policies":["tight"]`) {
			t.Errorf("body: %s", body)
		}
	})
	t.Run("B-W24 no identifiers in bodies", func(t *testing.T) {
		raw, line := newKey(t, identity.KeyRecord{Name: "acme-ci", Tenant: "acme-tenant"})
		h := newGate(t, open(t, perHour("none", 0, "http")), gate.Options{Identity: identity.Options{Keys: keys(t, line)}}).Handler(ok)
		body, _ := io.ReadAll(do(h, request("GET", "/secret/path", "X-API-Key", raw)).Body)
		for _, word := range []string{raw, "acme", "apikey", "203.0.113.9", "secret/path", "standard"} {
			if strings.Contains(string(body), word) {
				t.Errorf("the body holds %q: %s", word, body)
			}
		}
	})
	t.Run("I-080 I-082 a script may read a refusal, and no cache keeps it", func(t *testing.T) {
		o := gate.Options{CORS: wire.CORS{Origins: []string{"https://a.example"}}}
		g := newGate(t, open(t, perHour("none", 0, "http")), o)
		outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=60")
			g.Handler(ok).ServeHTTP(w, r)
		})
		h := do(outer, request("GET", "/", "Origin", "https://a.example")).Header
		expect(t, "ACAO", h.Get("Access-Control-Allow-Origin"), "https://a.example")
		expect(t, "Vary", h.Get("Vary"), "Origin")
		expect(t, "Cache-Control", h.Get("Cache-Control"), "no-store")
		for _, name := range []string{"Retry-After", "Ratelimit", "Ratelimit-Policy"} {
			if !strings.Contains(h.Get("Access-Control-Expose-Headers"), name) {
				t.Errorf("%s is not exposed: %s", name, h.Get("Access-Control-Expose-Headers"))
			}
		}
	})
	t.Run("I-086 a gRPC call gets trailers only", func(t *testing.T) {
		h := newGate(t, open(t, perHour("one", 1, "http")), gate.Options{}).Handler(ok)
		grpc := func() *http.Request {
			return withBody("/pkg.Service/Method", "", "Content-Type", "application/grpc", "TE", "trailers")
		}
		do(h, grpc())
		resp := do(h, grpc())
		expect(t, "status", resp.StatusCode, 200)
		expect(t, "grpc-status", resp.Header.Get("Grpc-Status"), "8")
	})
	t.Run("2.4 a browser gets a page", func(t *testing.T) {
		h := newGate(t, open(t, perHour("none", 0, "http")), gate.Options{}).Handler(ok)
		resp := do(h, request("GET", "/", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
		expect(t, "type", resp.Header.Get("Content-Type"), "text/html; charset=utf-8")
	})
	t.Run("3.12 an endpoint may keep its numbers to itself", func(t *testing.T) {
		h := newGate(t, open(t, perHour("all", 1, "http")), gate.Options{Endpoints: []gate.Endpoint{
			{ID: "login", Pattern: "/login", Headers: &gate.Headers{When: wire.Refused}},
		}}).Handler(ok)
		expect(t, "limit on success", limitOf(h, request("GET", "/login")), "")
		expect(t, "limit on refusal", limitOf(h, request("GET", "/login")), "1")
	})
	t.Run("a controller that is closed is 503", func(t *testing.T) {
		ctl := open(t, perHour("one", 1, "http"))
		h := newGate(t, ctl, gate.Options{}).Handler(ok)
		do(h, request("GET", "/"))
		expect(t, "status of a refusal before", do(h, request("GET", "/")).StatusCode, 429)
		ctl.Close()
		expect(t, "status", do(h, request("GET", "/")).StatusCode, 503)
	})
}

func TestOthersFields(t *testing.T) {
	theirs := func(status int, fields ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
		})
	}
	for _, c := range []struct {
		name  string
		merge gate.Merge
		inner http.Handler
		want  string // of X-RateLimit-Remaining; ours is 9
	}{
		{"replace", gate.Replace, theirs(200, "X-RateLimit-Remaining", "5"), "9"},
		{"keep", gate.Keep, theirs(200, "X-RateLimit-Remaining", "5"), "5"},
		{"keep what is not there", gate.Keep, theirs(200), "9"},
		{"least is theirs", gate.Least, theirs(200, "X-RateLimit-Remaining", "5"), "5"},
		{"least is ours", gate.Least, theirs(200, "X-RateLimit-Remaining", "50"), "9"},
		{"least is theirs in a list", gate.Least, theirs(200, "X-RateLimit-Remaining", "50", "RateLimit", `"a";r=70, "b";r=3`), "50"},
		{"7.4 least of a name that is a String is read", gate.Least, theirs(200, "RateLimit", `"default";r=5`), ""},
		{"7.4 least of a name that is a Token is not", gate.Least, theirs(200, "RateLimit", `default;r=5`), "9"},
		{"7.4 least below zero is not", gate.Least, theirs(200, "RateLimit", `"a";r=-1`), "9"},
		{"7.4 least with a fraction is not", gate.Least, theirs(200, "RateLimit", `"a";r=1.5`), "9"},
		{"7.4 least of a dictionary is not", gate.Least, theirs(200, "RateLimit", `limit=100, remaining=5, reset=5`), "9"},
		{"least of nonsense is ours", gate.Least, theirs(200, "X-RateLimit-Remaining", "many"), "9"},
		{"I-078 a 429 from behind keeps its own", gate.Replace, theirs(429, "X-RateLimit-Remaining", "0"), "0"},
	} {
		t.Run("2.2 "+c.name, func(t *testing.T) {
			o := gate.Options{Headers: gate.Headers{Merge: c.merge}}
			resp := do(newGate(t, open(t, perHour("ten", 10, "http")), o).Handler(c.inner), request("GET", "/"))
			expect(t, "remaining", resp.Header.Get("X-RateLimit-Remaining"), c.want)
			if n := len(resp.Header["X-Ratelimit-Remaining"]); n > 1 {
				t.Errorf("%d values", n)
			}
		})
	}
}
