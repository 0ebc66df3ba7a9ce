package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// demoURL is the upstream that is this very process.
const demoURL = "demo:"

// maxDemoWait bounds how long the demo can be made to think.
const maxDemoWait = 30 * time.Second

// demo is a server to try limits on. It answers every request with what it saw of it,
// after ?wait= if that is given, but for headers that carry secrets.
func demo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil {
			select {
			case <-time.After(min(wait, maxDemoWait)):
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprintf(w, "The demo behind sluice got this request:\n\n%s %s\nHost: %s\n", r.Method, r.URL.RequestURI(), r.Host)
		var names []string
		for name := range r.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if slices.Contains(secretHeaders, name) {
				fmt.Fprintf(w, "%s: …\n", name)
				continue
			}
			for _, v := range r.Header[name] {
				fmt.Fprintf(w, "%s: %s\n", name, v)
			}
		}
	})
}

var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key"}
