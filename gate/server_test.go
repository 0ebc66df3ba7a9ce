package gate_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/gate"
)

// logged is a log that many goroutines write to. The zero value is ready.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestServerOfTwoListeners: a reload that moves a listener serves the new one while the
// old one still accepts. Under the race detector it fails if Serve changes the server.
func TestServerOfTwoListeners(t *testing.T) {
	g := newGate(t, open(t), gate.Options{})
	s, err := gate.NewServer(g, g.Handler(ok), certificate(t, t.TempDir(), "one.example"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer s.Shutdown(t.Context())
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		serving.Go(func() { s.Serve(l) })
	}
	for _, l := range listeners {
		resp, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		expect(t, "protocol", resp.Proto, "HTTP/2.0")
	}
}

func TestErrorLog(t *testing.T) {
	var log logged
	o := gate.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	g := newGate(t, open(t), o)
	panics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a mistake") })
	_, addr := listen(t, g, g.Handler(panics), certificate(t, t.TempDir(), "one.example"))
	stranger, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	stranger.Write([]byte("no TLS at all\r\n\r\n"))
	stranger.Read(make([]byte, 1)) // the answer comes after the line in the log

	for _, http2 := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}}
		if resp, err := client.Get("https://" + addr); err == nil {
			resp.Body.Close()
			t.Errorf("a panic was answered %s", resp.Status)
		}
	}
	eventually(t, "both panics are logged as errors", func() bool { return strings.Count(log.String(), "level=ERROR") == 2 })
	if text := log.String(); !strings.Contains(text, "a mistake") || strings.Contains(text, "handshake") {
		t.Errorf("the log is\n%s", text)
	}
}

// TestWarnedOnce: a reload that changes nothing about client addresses does not warn of
// them again.
func TestWarnedOnce(t *testing.T) {
	var log logged
	o := gate.Options{
		ClientIP: gate.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Logger:   textLogger(&log),
	}
	g := newGate(t, open(t), o)
	ask := func() {
		for range 1000 {
			do(g.Handler(ok), from("10.0.0.1:1", request("GET", "/")))
		}
	}
	reload := func() {
		t.Helper()
		if err := g.Reload(o); err != nil {
			t.Fatal(err)
		}
		ask()
	}
	ask()
	expect(t, "warnings", strings.Count(log.String(), "SLUICE_W104"), 1)
	o.AnonymousTier = "other"
	reload()
	expect(t, "warnings after a reload", strings.Count(log.String(), "SLUICE_W104"), 1)
	o.ClientIP.Header = "X-Client"
	reload()
	expect(t, "warnings about another header", strings.Count(log.String(), "SLUICE_W104"), 2)
}
