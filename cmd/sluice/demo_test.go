package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDemoShowsNoSecrets(t *testing.T) {
	r := httptest.NewRequest("GET", "/a?b=c", nil)
	for _, name := range secretHeaders {
		r.Header.Set(name, "s3cret")
	}
	r.Header.Set("Accept", "text/*")
	w := httptest.NewRecorder()
	demo().ServeHTTP(w, r)
	got := w.Body.String()
	if strings.Contains(got, "s3cret") {
		t.Errorf("a secret is shown:\n%s", got)
	}
	if !strings.Contains(got, "GET /a?b=c\n") || !strings.Contains(got, "Accept: text/*\n") {
		t.Errorf("the request is not shown:\n%s", got)
	}
}

func TestDemoThinksForABoundedTime(t *testing.T) {
	for wait, want := range map[string]time.Duration{"2s": 2 * time.Second, "10h": maxDemoWait, "-1s": 0, "soon": 0} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			demo().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/?wait="+wait, nil))
			if got := time.Since(start); got != want {
				t.Errorf("wait=%s: it took %v, want %v", wait, got, want)
			}
		})
	}
}
