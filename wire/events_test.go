package wire

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

func TestRefuseEvents(t *testing.T) {
	w, err := New(Options{Problem: Problem{Type: "urn:x", Title: "two\nlines"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("I-109 the stream says when to come back, and why it is empty", func(t *testing.T) {
		rec := httptest.NewRecorder()
		ok := w.RefuseEvents(rec, httptest.NewRequest("GET", "/", nil), rate(6612345*time.Microsecond, refused(burst, 6612345*time.Microsecond)))
		res := rec.Result()
		h := res.Header
		if !ok || res.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" || h.Get("Retry-After") != "7" {
			t.Errorf("%v, %d %v", ok, res.StatusCode, h)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(body), "\n")
		if len(lines) != 5 || lines[0] != "retry: 6613" || lines[1] != "event: refused" || lines[3]+lines[4] != "" {
			t.Fatalf("the stream is %q", body)
		}
		var p struct{ Status int }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &p); err != nil || p.Status != 429 {
			t.Errorf("the data is %q: %v", lines[2], err)
		}
	})
	t.Run("what is refused for good is nothing to come back to", func(t *testing.T) {
		rec := httptest.NewRecorder()
		if w.RefuseEvents(rec, httptest.NewRequest("GET", "/", nil), &sluice.Refusal{Reason: sluice.ReasonDenied, Permanent: true}) || rec.Body.Len() > 0 || len(rec.Header()) > 0 {
			t.Errorf("it was answered %v %q", rec.Header(), rec.Body)
		}
	})
}
