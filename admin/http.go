package admin

import (
	"encoding/json"
	"net/http"
)

// routes lays out the endpoints. Whatever can change something is a POST and needs an
// operator; the page's files and health are open; everything else needs a reader.
func (a *Admin) routes() http.Handler {
	mux := http.NewServeMux()
	read := func(h http.HandlerFunc) http.Handler {
		return a.guard.need(Reader, func(w http.ResponseWriter, r *http.Request, _ string) { h(w, r) })
	}
	mux.Handle("GET /actuator/ratelimits", read(a.getRateLimits))
	mux.Handle("POST /actuator/ratelimits/reset", a.guard.need(Operator, a.postReset))
	mux.Handle("POST /actuator/mcp/release", a.guard.need(Operator, a.postRelease))
	mux.Handle("POST /actuator/reload", a.guard.need(Operator, a.postReload))
	mux.Handle("GET /actuator/health", a.guard.open(a.getReadiness))
	mux.Handle("GET /actuator/health/liveness", a.guard.open(a.getLiveness))
	mux.Handle("GET /actuator/health/readiness", a.guard.open(a.getReadiness))
	mux.Handle("GET /actuator/info", read(a.getInfo))
	mux.Handle("GET /actuator/prometheus", read(a.metrics.Handler().ServeHTTP))
	mux.Handle("GET /metrics", read(a.metrics.Handler().ServeHTTP))
	mux.Handle("GET /api/v1/snapshot", read(a.getSnapshot))
	mux.Handle("GET /api/v1/stream", read(a.getStream))
	for path, file := range assets {
		mux.Handle("GET "+path, a.guard.open(file.serve))
	}
	return harden(mux)
}

// Guard puts the checks that this package's own endpoints have in front of another one,
// which a program serves beside [Admin.Handler]: the name by which the listener is
// addressed, the page that asks, the token or the peer's address, and the role.
func (a *Admin) Guard(role Role, next http.Handler) http.Handler {
	return harden(a.guard.need(role, func(w http.ResponseWriter, r *http.Request, _ string) { next.ServeHTTP(w, r) }))
}

// policyOfContent lets the page load nothing but its own files, run no inline script,
// and turn no text into markup.
const policyOfContent = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'"

// harden gives every answer the headers that keep a browser from misusing it.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyOfContent)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) { answerAs(w, status, "application/json", v) }

// problem writes a problem of RFC 9457.
func problem(w http.ResponseWriter, status int, title, detail string) {
	answerAs(w, status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{title, status, detail})
}

func answerAs(w http.ResponseWriter, status int, mediaType string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "admin: the answer cannot be written as JSON: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the caller has gone; nobody is left to tell
}
