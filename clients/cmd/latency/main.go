// Command latency prints what the gateway to language models adds to a call: its time beside
// that of the same call made directly, at the same open-loop rate, and its CPU beside
// httputil.ReverseProxy's on the same calls.
//
//	go run ./cmd/latency [-seconds 10] [-rate 20] [-other name=URL]
//
// Provider, proxy and gateway are processes of their own, and the sides take turns, so that a
// busy machine is busy for all of them. The gateway is "sluice serve" with limits of requests,
// tokens and calls at once. A time counts from when the request was to be sent, whatever
// the requests before it do. -other is a further gateway that has been started by hand with
// the provider's address, and what its base URL is; "sluice mock-llm" is the provider.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"
)

// A load is one row: bodies of some size at some rate, streamed or not.
type load struct {
	bytes  int
	rate   int // requests a second
	stream bool
}

var loads = []load{
	{200, 200, false}, {200, 200, true},
	{20_000, 200, false}, {20_000, 200, true},
	{400_000, 40, false}, {400_000, 40, true},
}

func main() {
	seconds := flag.Int("seconds", 10, "how long each row takes for each side")
	rate := flag.Int("rate", 0, "requests a `second` in every row, in place of its own")
	other := flag.String("other", "", "a further `name=URL`")
	provider := flag.String("provider", "127.0.0.1:18090", "where the provider listens")
	proxy := flag.String("proxy", "", "be the proxy in front of a `URL`; this program starts it so")
	flag.Parse()
	var err error
	if *proxy != "" {
		err = serveProxy(*proxy)
	} else {
		err = measure(time.Duration(*seconds)*time.Second, *rate, *provider, *other)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

// serveProxy is the floor: the standard library's reverse proxy, which counts nothing.
func serveProxy(to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{Transport: newTransport(), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise an answer that begins at once closes the body that is being sent on.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
	defer s.Close()
	fmt.Println("at " + s.URL)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
	return nil
}

// A side answers the same calls as the others.
type side struct {
	name string
	url  string
	pid  int // of its process, 0 if that is not ours
}

// measure starts all sides and prints a row for each load.
func measure(span time.Duration, rate int, provider, other string) error {
	sides, stop, err := start(provider)
	defer stop()
	if err != nil {
		return err
	}
	if name, at, ok := strings.Cut(other, "="); ok {
		sides = append(sides, &side{name: name, url: at})
	} else if other != "" {
		return errors.New("-other is name=URL")
	}
	header(os.Stdout, sides)
	for _, l := range loads {
		if rate > 0 {
			l.rate = rate
		}
		results := make([]result, len(sides))
		for range rounds {
			for i, s := range sides {
				if err := results[i].add(s, l, span/rounds); err != nil {
					return err
				}
			}
		}
		row(os.Stdout, l, sides, results)
	}
	return nil
}

// rounds is how many turns the sides take in a row.
const rounds = 5

func header(w io.Writer, sides []*side) {
	fmt.Fprintf(w, "| body | requests/s |")
	for _, s := range sides {
		fmt.Fprintf(w, " %s p50 / p99 |", s.name)
	}
	fmt.Fprintf(w, " sluice adds p50 / p99 | CPU sluice ÷ proxy |\n|---|---|%s---|---|\n", strings.Repeat("---|", len(sides)))
}

func row(w io.Writer, l load, sides []*side, results []result) {
	kind := "whole"
	if l.stream {
		kind = "64 pieces"
	}
	fmt.Fprintf(w, "| %d B, %s | %d |", l.bytes, kind, l.rate)
	for i := range sides {
		fmt.Fprintf(w, " %s / %s |", ms(results[i].quantile(0.5)), ms(results[i].quantile(0.99)))
	}
	direct, proxy, ours := &results[0], &results[1], &results[2]
	fmt.Fprintf(w, " %s / %s | %.0f µs ÷ %.0f µs = %.2f |\n", ms(ours.quantile(0.5)-direct.quantile(0.5)), ms(ours.quantile(0.99)-direct.quantile(0.99)),
		ours.cpuEach(), proxy.cpuEach(), ours.cpuEach()/proxy.cpuEach())
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
