package gate_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
)

// mirror answers with the head of the request that reached it.
var mirror = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %s %s %s\n", r.Method, r.Host, r.RequestURI, r.Proto)
	r.Header.Write(w)
})

// proxy is a gate in front of h, on a real server each.
func proxy(t testing.TB, h http.Handler, o gate.Options, rules ...sluice.Rule) string {
	t.Helper()
	o.Upstreams = append(o.Upstreams, upstream.Options{Name: "app", URL: serve(t, h).URL})
	return serve(t, newGate(t, open(t, rules...), o).Proxy()).URL
}

// send sends a request and returns the answer and its body.
func send(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	r.RequestURI = ""
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestProxyHeaders(t *testing.T) {
	claims := []string{
		"X-Forwarded-For", "6.6.6.6", "X-Real-IP", "6.6.6.6", "True-Client-IP", "6.6.6.6", "CF-Connecting-IP", "6.6.6.6",
		"Forwarded", "for=6.6.6.6", "X_Forwarded_For", "6.6.6.6", "X-Tenant-ID", "victim", "X_Tenant_ID", "victim",
		"X-HTTP-Method-Override", "DELETE", "X-Other", "kept",
	}
	t.Run("I-002 I-025 3.2 what a stranger claims does not reach the upstream", func(t *testing.T) {
		_, body := send(t, request("GET", proxy(t, mirror, gate.Options{})+"/a%20b?q=1", claims...))
		for _, word := range []string{"6.6.6.6", "victim", "DELETE"} {
			if strings.Contains(body, word) {
				t.Errorf("the upstream saw %q:\n%s", word, body)
			}
		}
		for _, line := range []string{"GET 127.0.0.1", "/a%20b?q=1", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: http", "X-Other: kept"} {
			if !strings.Contains(body, line) {
				t.Errorf("the upstream did not see %q:\n%s", line, body)
			}
		}
	})
	t.Run("3.1 what a trusted proxy reports is passed on and added to, spelt with hyphens", func(t *testing.T) {
		o := gate.Options{
			ClientIP: gate.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			Identity: identity.Options{Tenant: identity.Tenant{From: identity.FromTrusted}},
		}
		_, body := send(t, request("GET", proxy(t, mirror, o), append(claims, "X-Forwarded-Proto", "https")...))
		for _, line := range []string{"X-Forwarded-For: 6.6.6.6, 127.0.0.1", "X-Forwarded-Proto: https", "X-Tenant-Id: victim"} {
			if !strings.Contains(body, line) {
				t.Errorf("the upstream did not see %q:\n%s", line, body)
			}
		}
		if strings.Contains(body, "X_") || strings.Contains(body, "DELETE") {
			t.Errorf("the upstream saw what it should not:\n%s", body)
		}
	})
	t.Run("3.2 naming headers in Connection removes none of ours", func(t *testing.T) {
		_, body := send(t, request("GET", proxy(t, mirror, gate.Options{}), "Connection", "X-Forwarded-For, X-Forwarded-Host"))
		if !strings.Contains(body, "X-Forwarded-For: 127.0.0.1") {
			t.Errorf("the upstream saw:\n%s", body)
		}
	})
}

func TestProxyAnswers(t *testing.T) {
	t.Run("I-078 a 429 of the upstream is relayed unchanged", func(t *testing.T) {
		url := proxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "30")
			w.Header().Set("RateLimit", `"theirs";r=0;t=30`)
			w.WriteHeader(429)
			io.WriteString(w, "slow down")
		}), gate.Options{}, perHour("ours", 10, "http"))
		resp, body := send(t, request("GET", url))
		expect(t, "status", resp.StatusCode, 429)
		expect(t, "Retry-After", resp.Header.Get("Retry-After"), "30")
		expect(t, "RateLimit", resp.Header.Get("RateLimit"), `"theirs";r=0;t=30`)
		expect(t, "limit", resp.Header.Get("X-RateLimit-Limit"), "")
		expect(t, "body", body, "slow down")
	})
	t.Run("I-072 fields of the upstream are not doubled", func(t *testing.T) {
		url := proxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "77")
		}), gate.Options{}, perHour("ours", 10, "http"))
		resp, _ := send(t, request("GET", url))
		expect(t, "values", strings.Join(resp.Header["X-Ratelimit-Remaining"], " "), "9")
	})
	t.Run("an upstream that is not there is 502", func(t *testing.T) {
		dead := httptest.NewServer(nil)
		dead.Close()
		o := gate.Options{Upstreams: []upstream.Options{{Name: "dead", URL: dead.URL}}}
		resp, body := send(t, request("GET", serve(t, newGate(t, open(t), o).Proxy()).URL))
		expect(t, "status", resp.StatusCode, 502)
		expect(t, "type", resp.Header.Get("Content-Type"), "application/problem+json")
		if strings.Contains(body, "127.0.0.1") {
			t.Errorf("the body names the upstream: %s", body)
		}
	})
	t.Run("an upstream that does not answer is 504", func(t *testing.T) {
		never := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		o := gate.Options{Upstreams: []upstream.Options{{Name: "slow", URL: never.URL, ResponseTimeout: 20 * time.Millisecond}}}
		resp, _ := send(t, request("GET", serve(t, newGate(t, open(t), o).Proxy()).URL))
		expect(t, "status", resp.StatusCode, 504)
	})
	t.Run("the most specific upstream serves, and nobody else's path", func(t *testing.T) {
		named := func(name string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name+" "+r.URL.Path) })
		}
		o := gate.Options{Upstreams: []upstream.Options{
			{Name: "api", Handler: named("api"), Paths: []string{"/api/**"}},
			{Name: "v2", URL: serve(t, named("v2")).URL + "/base", Paths: []string{"/api/v2/**"}},
		}}
		url := serve(t, newGate(t, open(t, on(perHour("v2", 1, "http"), sluice.Provider, "v2")), o).Proxy()).URL
		for _, c := range []struct {
			path   string
			status int
			body   string
		}{{"/api/x", 200, "api /api/x"}, {"/api/v2/x", 200, "v2 /base/api/v2/x"}, {"/api/v2/y", 429, ""}, {"/other", 404, ""}} {
			resp, body := send(t, request("GET", url+c.path))
			expect(t, c.path, resp.StatusCode, c.status)
			if c.body != "" {
				expect(t, c.path, body, c.body)
			}
		}
	})
	t.Run("3.6 the upstream sees the client's path, or the canonical one on request", func(t *testing.T) {
		o := gate.Options{}
		_, body := send(t, request("GET", proxy(t, mirror, o)+"/a/./%62?q=%2e"))
		if !strings.Contains(body, " /a/./%62?q=%2e ") {
			t.Errorf("raw: %s", body)
		}
		o.Paths.ForwardCanonical = true
		_, body = send(t, request("GET", proxy(t, mirror, o)+"/a/./%62?q=%2e"))
		if !strings.Contains(body, " /a/b?q=%2e ") {
			t.Errorf("canonical: %s", body)
		}
	})
	t.Run("a stream is refused before the client gets any of it", func(t *testing.T) {
		resp, body := send(t, request("GET", proxy(t, events(nil), gate.Options{}, slots("none", 0, "stream"))))
		expect(t, "status", resp.StatusCode, 403)
		if !strings.Contains(body, "violated-policies") {
			t.Errorf("body: %q", body)
		}
	})
	t.Run("B-2 an excluded stream is not asked about", func(t *testing.T) {
		next := make(chan string)
		o := gate.Options{Excluded: []string{"/events"}}
		resp := get(t, t.Context(), proxy(t, events(next), o, slots("none", 0, "stream"))+"/events")
		expect(t, "status", resp.StatusCode, 200)
	})
	t.Run("trailers and HTTP/2 in clear pass through", func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Grpc-Status")
			io.WriteString(w, r.Proto)
			w.(http.Flusher).Flush()
			w.Header().Set("Grpc-Status", "0")
		}))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		defer s.Close()
		o := gate.Options{Upstreams: []upstream.Options{{Name: "h2c", URL: strings.Replace(s.URL, "http:", "h2c:", 1)}}}
		resp, body := send(t, request("GET", serve(t, newGate(t, open(t), o).Proxy()).URL))
		expect(t, "protocol", body, "HTTP/2.0")
		expect(t, "trailer", resp.Trailer.Get("Grpc-Status"), "0")
	})
	t.Run("an upstream on a unix socket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "app.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: mirror}
		go s.Serve(l)
		defer s.Close()
		o := gate.Options{Upstreams: []upstream.Options{{Name: "unix", URL: "unix:" + path}}}
		resp, _ := send(t, request("GET", serve(t, newGate(t, open(t), o).Proxy()).URL))
		expect(t, "status", resp.StatusCode, 200)
	})
}

func TestBodies(t *testing.T) {
	for _, mount := range []string{"proxy", "middleware"} {
		url := func(t *testing.T, o gate.Options) string {
			if mount == "proxy" {
				return proxy(t, mirror, o)
			}
			return serve(t, newGate(t, open(t), o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					status := http.StatusBadRequest
					if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
						status = http.StatusRequestEntityTooLarge
					} else if errors.Is(err, upstream.ErrBodyTimeout) {
						status = http.StatusRequestTimeout
					}
					w.WriteHeader(status)
				}
			}))).URL
		}
		t.Run("3.7 a body beyond the bound is 413: "+mount, func(t *testing.T) {
			o := gate.Options{Bounds: gate.Bounds{BodyBytes: new(int64(1000))}}
			u := url(t, o)
			for size, want := range map[int]int{1000: 200, 1001: 413} {
				r, _ := http.NewRequest("POST", u, bytes.NewReader(make([]byte, size)))
				resp, _ := send(t, r)
				expect(t, fmt.Sprint(size, " bytes"), resp.StatusCode, want)
				r, _ = http.NewRequest("POST", u, io.MultiReader(bytes.NewReader(make([]byte, size)))) // of unknown length
				resp, _ = send(t, r)
				expect(t, fmt.Sprint(size, " bytes, chunked"), resp.StatusCode, want)
			}
		})
		t.Run("3.7 a body that comes too slowly is 408: "+mount, func(t *testing.T) {
			u := url(t, gate.Options{Bounds: gate.Bounds{BodyTimeout: 100 * time.Millisecond}})
			c, err := net.Dial("tcp", strings.TrimPrefix(u, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\na")
			c.SetDeadline(time.Now().Add(5 * time.Second))
			answer, err := io.ReadAll(c)
			if !strings.HasPrefix(string(answer), "HTTP/1.1 408") {
				t.Errorf("got %q, %v", answer, err)
			}
		})
		t.Run("3.7 but an answer may take longer than a body: "+mount, func(t *testing.T) {
			o := gate.Options{Bounds: gate.Bounds{BodyTimeout: 50 * time.Millisecond}}
			slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				select {
				case <-r.Context().Done():
				case <-time.After(150 * time.Millisecond):
					io.WriteString(w, "done")
				}
			})
			u := proxy(t, slow, o)
			if mount == "middleware" {
				u = serve(t, newGate(t, open(t), o).Handler(slow)).URL
			}
			r, _ := http.NewRequest("POST", u, strings.NewReader("x"))
			_, body := send(t, r)
			expect(t, "body", body, "done")
		})
	}
}

// certificate writes a self-signed certificate for a name to dir.
func certificate(t *testing.T, dir, name string) gate.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := gate.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: der}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// listen serves with a gate's own server, and returns its address.
func listen(t *testing.T, g *gate.Gate, h http.Handler, files gate.TLS) (*gate.Server, string) {
	t.Helper()
	s, err := gate.NewServer(g, h, files)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown(t.Context())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

func TestServer(t *testing.T) {
	t.Run("HTTP/1.1 and HTTP/2 with TLS, and a certificate that is reloaded", func(t *testing.T) {
		dir := t.TempDir()
		g := newGate(t, open(t, perHour("two", 2, "http")), gate.Options{})
		s, addr := listen(t, g, g.Handler(ok), certificate(t, dir, "one.example"))
		name := func(http2 bool) (string, *http.Response) {
			c := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2, DisableKeepAlives: true,
			}}
			resp, err := c.Get("https://" + addr)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.TLS.PeerCertificates[0].Subject.CommonName, resp
		}
		first, resp := name(true)
		expect(t, "protocol", resp.Proto, "HTTP/2.0")
		expect(t, "certificate", first, "one.example")
		if err := s.ReloadTLS(certificate(t, dir, "two.example")); err != nil {
			t.Fatal(err)
		}
		second, resp := name(false)
		expect(t, "protocol", resp.Proto, "HTTP/1.1")
		expect(t, "certificate after the reload", second, "two.example")
		_, resp = name(true)
		expect(t, "the third is over the limit on any protocol", resp.StatusCode, 429)
		if err := s.ReloadTLS(gate.TLS{CertFile: filepath.Join(dir, "none"), KeyFile: filepath.Join(dir, "none")}); err == nil {
			t.Error("a certificate that is not there was taken")
		}
		again, _ := name(false)
		expect(t, "certificate after a bad reload", again, "two.example")
		if s.ReloadTLS(gate.TLS{}) == nil {
			t.Error("a server with a certificate was reloaded without one")
		}
	})
	t.Run("a client certificate is demanded", func(t *testing.T) {
		g := newGate(t, open(t), gate.Options{})
		files := certificate(t, t.TempDir(), "one.example")
		files.ClientCAFile = files.CertFile
		_, addr := listen(t, g, g.Handler(ok), files)
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, certs := range [][]tls.Certificate{nil, {pair}} {
			c := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}, DisableKeepAlives: true,
			}}
			resp, err := c.Get("https://" + addr)
			if err == nil {
				resp.Body.Close()
			}
			expect(t, fmt.Sprintf("served with %d certificates", len(certs)), err == nil, len(certs) == 1)
		}
	})
	t.Run("3.7 a head that comes too slowly, or is too long", func(t *testing.T) {
		o := gate.Options{Bounds: gate.Bounds{HeaderTimeout: 50 * time.Millisecond, HeaderBytes: 2000}}
		g := newGate(t, open(t), o)
		_, addr := listen(t, g, g.Handler(ok), gate.TLS{})
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost:")
		c.SetDeadline(time.Now().Add(5 * time.Second))
		if answer, err := io.ReadAll(c); err != nil {
			t.Errorf("the connection stays open: %q, %v", answer, err)
		}
		resp, _ := send(t, request("GET", "http://"+addr, "X-Long", strings.Repeat("x", 10_000)))
		expect(t, "status", resp.StatusCode, 431)
	})
	t.Run("3.9 one address has so many connections and no more", func(t *testing.T) {
		g := newGate(t, open(t), gate.Options{Bounds: gate.Bounds{ConnectionsPerIP: 2}})
		_, addr := listen(t, g, g.Handler(ok), gate.TLS{})
		talk := func() (net.Conn, error) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(5 * time.Second))
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			_, err = c.Read(make([]byte, 1))
			return c, err
		}
		first, err1 := talk()
		_, err2 := talk()
		if _, err := talk(); err1 != nil || err2 != nil || err == nil {
			t.Fatalf("got %v, %v, %v", err1, err2, err)
		}
		first.Close()
		eventually(t, "a place is free", func() bool { _, err := talk(); return err == nil })
	})
	t.Run("4.3 a shutdown finishes requests and ends streams", func(t *testing.T) {
		g := newGate(t, open(t), gate.Options{})
		started := make(chan struct{}, 2)
		mux := http.NewServeMux()
		mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
			started <- struct{}{}
			time.Sleep(100 * time.Millisecond)
			io.WriteString(w, "done")
		})
		mux.Handle("/events", events(nil))
		s, addr := listen(t, g, g.Handler(mux), gate.TLS{})
		stream := get(t, t.Context(), "http://"+addr+"/events")
		answer := make(chan string, 1)
		go func() {
			_, body := send(t, request("GET", "http://"+addr+"/slow"))
			answer <- body
		}()
		<-started
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, "body", <-answer, "done")
		io.Copy(io.Discard, stream.Body)
	})
}
