package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	algorithm "github.com/sluicegate/sluice/limit"
)

// problemOf decodes a body, strictly.
func problemOf(t *testing.T, res *http.Response) map[string]any {
	t.Helper()
	var p map[string]any
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProblem(t *testing.T) {
	three := refused(burst, 6612*time.Millisecond)
	tests := []struct {
		name string
		o    Options
		ref  *sluice.Refusal
		want map[string]any
	}{
		{"2.4 by reason", Options{}, rate(6612*time.Millisecond, three), map[string]any{
			"type":  "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title": "Request cannot be satisfied as assigned quota has been exceeded", "status": 429.0,
			"detail": `Limit "burst" is used up; try again in 7 seconds.`, "violated-policies": []any{"burst"},
			"retryAfterSeconds": 7.0, "retry-after-ms": 6612.0,
		}},
		{"B-16 the ADR's", Options{Problem: Spector()}, rate(time.Second, three), map[string]any{
			"type": "urn:spector:error:rate-limit-exceeded", "title": "Too Many Requests", "status": 429.0,
			"detail": `Limit "burst" is used up; try again in 1 second.`, "instance": "/a/b", "violated-policies": []any{"burst"},
			"retryAfterSeconds": 1.0, "retry-after-ms": 1000.0,
		}},
		{"own type", Options{Problem: Problem{Type: "urn:x", Title: "No"}}, rate(time.Second, three), map[string]any{
			"type": "urn:x", "title": "No", "status": 429.0,
			"detail": `Limit "burst" is used up; try again in 1 second.`, "violated-policies": []any{"burst"},
			"retryAfterSeconds": 1.0, "retry-after-ms": 1000.0,
		}},
		{"503 keeps the registered type", Options{Problem: Spector()}, &sluice.Refusal{Reason: sluice.ReasonQueueFull, Rule: "q", Violated: []string{"q"}}, map[string]any{
			"type":  "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			"title": "Request cannot be satisfied due to temporary server capacity constraints", "status": 503.0,
			"detail": `The queue of "q" is full; try again in 1 second.`, "instance": "/a/b", "violated-policies": []any{"q"},
			"retryAfterSeconds": 1.0, "retry-after-ms": 1000.0,
		}},
		{"2.3 for good", Options{}, &sluice.Refusal{Reason: sluice.ReasonDenied, Rule: "d", Permanent: true, Violated: []string{"d"}}, map[string]any{
			"type": "about:blank", "title": "Forbidden", "status": 403.0,
			"detail": `Limit "d" admits nothing; trying again will not help.`, "violated-policies": []any{"d"},
		}},
		{"names as in RateLimit-Policy, no shadow", Options{}, rate(time.Second,
			sluice.Level{Rule: "r", Name: "bucket", Kind: algorithm.KindBucket, Refused: true},
			sluice.Level{Rule: "r", Name: `s"x`, Kind: algorithm.KindSlots, Refused: true},
			tier, shadow(refused(daily, 1))), map[string]any{
			"type": quotaType, "title": quotaTitle, "status": 429.0,
			"detail": `Limit "r" is used up; try again in 1 second.`, "violated-policies": []any{"r:bucket", `r:s"x`},
			"retryAfterSeconds": 1.0, "retry-after-ms": 1000.0,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := refuse(t, tt.o, nil, tt.ref)
			if got := problemOf(t, res); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("body %v\nwant %v", got, tt.want)
			}
			if got := float64(res.StatusCode); got != tt.want["status"] {
				t.Errorf("status %v", got)
			}
			check(t, res.Header, map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store"})
		})
	}
}

func TestStatus(t *testing.T) {
	want := map[sluice.Reason]int{
		sluice.ReasonRate: 429, sluice.ReasonConcurrency: 429, sluice.ReasonBudget: 429, sluice.ReasonTooLarge: 429,
		sluice.ReasonCooldown: 503, sluice.ReasonQueueFull: 503, sluice.ReasonQueueTimeout: 503, sluice.ReasonStore: 503, sluice.ReasonFull: 503,
		sluice.ReasonDenied: 403, sluice.ReasonMissing: 403, sluice.ReasonInvalid: 400,
	}
	w := mustNew(t, Options{})
	for reason, status := range want {
		ref := &sluice.Refusal{Reason: reason, Rule: "r"}
		if got := w.Status(ref); got != status {
			t.Errorf("%v: %d, want %d", reason, got, status)
		}
		if detail := string(appendReason(nil, ref, 0)); reason != sluice.ReasonInvalid && !strings.Contains(detail, `"r"`) {
			t.Errorf("%v: %q does not name the rule", reason, detail)
		}
	}
	if int(sluice.ReasonFull) != len(sentences)-1 || len(want) != len(sentences)-1 {
		t.Error("a reason has no sentence or no status here")
	}
	body := &sluice.Refusal{Reason: sluice.ReasonTooLarge, Levels: []sluice.Level{{Unit: sluice.Bytes, Refused: true}}}
	if got := w.Status(body); got != 413 {
		t.Errorf("a body too large: %d", got)
	}
	own := mustNew(t, Options{Status: map[sluice.Reason]int{sluice.ReasonMissing: 401}})
	if got := own.Status(&sluice.Refusal{Reason: sluice.ReasonMissing}); got != 401 {
		t.Errorf("I-044 own status: %d", got)
	}
}

func TestNoIdentifiers(t *testing.T) {
	ref := rate(time.Second, burst)
	ref.Err = errors.New("dial redis secret")
	h := http.Header{
		"X-Api-Key": {"secret"}, "Authorization": {"Bearer secret"}, "X-Tenant-Id": {"secret"},
		"Accept": {"application/json"}, "Origin": {"https://secret.example"},
	}
	for _, o := range []Options{{}, {Problem: Spector()}} {
		body, err := io.ReadAll(refuse(t, o, h, ref).Body)
		for _, id := range []string{"secret", "192.0.2.1"} { // httptest's RemoteAddr
			if err != nil || bytes.Contains(body, []byte(id)) {
				t.Errorf("B-W24: body %s", body)
			}
		}
	}
}

func TestHeadHasNoBody(t *testing.T) {
	rec := httptest.NewRecorder()
	mustNew(t, Options{}).Refuse(rec, httptest.NewRequest("HEAD", "/", nil), rate(time.Second, burst))
	if rec.Code != 429 || rec.Body.Len() > 0 || rec.Header().Get("Retry-After") != "1" || rec.Header().Get("Content-Type") == "" {
		t.Errorf("2.4 HEAD: %d %v %q", rec.Code, rec.Header(), rec.Body)
	}
}

func TestRefusalIsNotStored(t *testing.T) {
	rec := httptest.NewRecorder()
	rec.Header().Set("Cache-Control", "public, max-age=600")
	rec.Header().Set("Age", "5")
	rec.Header().Set("Expires", "Thu, 01 Jan 2099 00:00:00 GMT")
	mustNew(t, Options{}).Refuse(rec, httptest.NewRequest("GET", "/", nil), rate(time.Second))
	check(t, rec.Header(), map[string]string{"Cache-Control": "no-store", "Age": "", "Expires": ""}) // I-082
}

func TestAccept(t *testing.T) {
	tests := []struct {
		accept string
		html   bool
	}{
		{"", false},
		{"*/*", false},
		{"application/json", false},
		{"text/html", true},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true}, // a browser
		{"application/json, text/html", false},
		{"text/html, application/json", true},
		{"text/html;q=0.5, application/json", false},
		{"text/html;q=0.5, */*;q=0.8", false},
		{"application/json;q=0.2;v=1, text/html;level=1;q=0.3", true},
		{"text/html;q=0", false},
		{"text/html;q=x, */*", false},
		{"TEXT/HTML", true},
		{"image/png", false},
	}
	for _, tt := range tests {
		res := refuse(t, Options{}, http.Header{"Accept": {tt.accept}}, rate(time.Second, burst))
		html := strings.HasPrefix(res.Header.Get("Content-Type"), "text/html")
		body, _ := io.ReadAll(res.Body)
		if html != tt.html || html != bytes.Contains(body, []byte("<h1>429 Too Many Requests</h1>")) || html == json.Valid(body) {
			t.Errorf("2.4 Accept %q: HTML %v, want %v: %s", tt.accept, html, tt.html, body)
		}
	}
	two := refuse(t, Options{}, http.Header{"Accept": {"application/json;q=0.1", "text/html"}}, rate(time.Second))
	check(t, two.Header, map[string]string{"Content-Type": "text/html; charset=utf-8"})
	page, _ := io.ReadAll(refuse(t, Options{}, http.Header{"Accept": {"text/html"}}, rate(time.Second, sluice.Level{Rule: "<img onerror>", Refused: true})).Body)
	if bytes.Contains(page, []byte("<img")) {
		t.Errorf("the page runs the rule's name: %s", page)
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("a\"\\\n\x00\x7f\u2028é\xff\xe2\x82")
	f.Fuzz(func(t *testing.T, s string) {
		var got, want string
		if err := json.Unmarshal(appendJSON(nil, s), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		text, _ := json.Marshal(s)
		if err := json.Unmarshal(text, &want); err != nil || got != want {
			t.Errorf("%q came back as %q", want, got)
		}
		if !bytes.Equal(appendJSON(nil, s), appendJSON(nil, []byte(s))) {
			t.Errorf("%q: string and bytes differ", s)
		}
	})
}

func TestCORS(t *testing.T) {
	const app = "https://a.example"
	listed := CORS{Origins: []string{app}}
	tests := []struct {
		name   string
		cors   CORS
		origin string
		want   map[string]string
	}{
		{"I-080 listed", listed, app, map[string]string{
			"Access-Control-Allow-Origin": app, "Vary": "Origin",
			"Access-Control-Expose-Headers": "Retry-After, Ratelimit, Ratelimit-Policy", "Access-Control-Allow-Credentials": "",
		}},
		{"not listed", listed, "https://b.example", map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin", "Access-Control-Expose-Headers": ""}},
		{"no origin", listed, "", map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin"}},
		{"all", CORS{Origins: []string{"*"}}, app, map[string]string{"Access-Control-Allow-Origin": "*", "Vary": ""}},
		{"with credentials", CORS{Origins: []string{app}, Credentials: true}, app, map[string]string{"Access-Control-Allow-Credentials": "true"}},
		{"own list", CORS{Origins: []string{app}, Expose: []string{"X-A", "X-B"}}, app, map[string]string{"Access-Control-Expose-Headers": "X-A, X-B"}},
		{"off", CORS{}, app, map[string]string{"Access-Control-Allow-Origin": "", "Vary": "", "Access-Control-Expose-Headers": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.origin != "" {
				h.Set("Origin", tt.origin)
			}
			check(t, refuse(t, Options{CORS: tt.cors, Families: []Family{Draft10}}, h, rate(time.Second)).Header, tt.want)
		})
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("Access-Control-Allow-Origin", "https://outer.example")
	rec.Header().Set("Vary", "Accept, origin")
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Origin", app)
	mustNew(t, Options{CORS: listed}).Refuse(rec, r, rate(time.Second))
	check(t, rec.Header(), map[string]string{"Access-Control-Allow-Origin": "https://outer.example", "Vary": "Accept, origin"})
}
