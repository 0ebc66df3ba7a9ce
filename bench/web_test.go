package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Servers run in processes of their own, so that their CPU time is theirs alone.
// The benchmark starts its own binary again with this variable, which names what
// to serve: "<side>/<load>/<row>" and, for a proxy, a space and the upstream's URL.
const serveVariable = "SLUICE_BENCH_SERVE"

func TestMain(m *testing.M) {
	if what := os.Getenv(serveVariable); what != "" {
		if err := serve(what); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var answer = []byte(`{"id":"call-1","object":"answer","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish":"stop"}]}`)

func respond(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(answer) // a client that has gone is no concern of a benchmark
}

// profileVariable names the file for a CPU profile of our own server's process.
const profileVariable = "SLUICE_BENCH_PROFILE"

// serve is the server process: it prints its address, and then its CPU time in ns
// for every line it reads, until there are no more.
func serve(what string) error {
	handler, err := handlerOf(what)
	if err != nil {
		return err
	}
	if file := os.Getenv(profileVariable); file != "" && strings.Contains(what, "/sluice") {
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	fmt.Println(server.URL)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(cpuTime().Nanoseconds())
	}
	return nil
}

func handlerOf(what string) (http.Handler, error) {
	what, upstream, _ := strings.Cut(what, " ")
	side, load, row := cut3(what)
	for _, c := range contestants {
		if c.name != row || c.guard == nil {
			continue
		}
		if side == "guard" {
			return c.guard(loads[load], http.HandlerFunc(respond)), nil
		}
		to, err := url.Parse(upstream)
		if err != nil {
			return nil, err
		}
		if c.proxy != nil {
			return c.proxy(loads[load], to), nil
		}
		return c.guard(loads[load], bareProxy(to)), nil
	}
	return nil, fmt.Errorf("no row %q", what)
}

func cut3(s string) (a, b, c string) {
	a, s, _ = strings.Cut(s, "/")
	b, c, _ = strings.Cut(s, "/")
	return a, b, c
}

var loads = map[string]quota{"pass": free, "deny": spent}

// bareProxy is the floor of a reverse proxy: the standard library's, with enough
// idle connections not to dial.
func bareProxy(upstream *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream); r.SetXForwarded() },
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 2 * connections,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
	}
}

// A process is a server that runs beside the benchmark.
type process struct {
	url string
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(tb testing.TB, what string) *process {
	cmd := exec.Command(must(os.Executable()))
	// One processor for the server, so that CPU a request means the same for all.
	cmd.Env = append(os.Environ(), serveVariable+"="+what, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	p := &process{in: must(cmd.StdinPipe()), out: bufio.NewScanner(must(cmd.StdoutPipe()))}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.in.Close()
		cmd.Wait()
	})
	p.url = p.line(tb)
	return p
}

func (p *process) line(tb testing.TB) string {
	if !p.out.Scan() {
		tb.Fatalf("the server process ended: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *process) cpu(tb testing.TB) time.Duration {
	if _, err := fmt.Fprintln(p.in); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(must(strconv.ParseInt(p.line(tb), 10, 64)))
}

const connections = 64

// BenchmarkGuard/<load>/<row> is net/http middleware that limits by client address,
// BenchmarkProxy/<load>/<row> a reverse proxy that does. pass grants everything,
// deny answers 429. ns-cpu/req is what the server process spends on a request; the
// client is another process. Run with -cpu 1.
func BenchmarkGuard(b *testing.B) { serveAll(b, "guard", "") }

// BenchmarkProxy is described at [BenchmarkGuard].
func BenchmarkProxy(b *testing.B) {
	upstream := start(b, "guard/pass/floor.bare")
	serveAll(b, "proxy", upstream.url)
}

func serveAll(b *testing.B, side, upstream string) {
	rows := find(func(c contestant) bool { return c.guard != nil || side == "proxy" && c.proxy != nil })
	for _, load := range []string{"pass", "deny"} {
		b.Run(load, func(b *testing.B) {
			for _, c := range rows {
				if load == "deny" && c.name == "floor.bare" {
					continue // it refuses nobody
				}
				server := sync.OnceValue(func() *process {
					p := start(b, strings.TrimSpace(side+"/"+load+"/"+c.name+" "+upstream))
					warmUp(b, p, load)
					return p
				})
				b.Run(c.name, func(b *testing.B) { request(b, server(), load) })
			}
		})
	}
}

// warmUp spends what the quota of the load grants, and opens the proxy's
// connections.
func warmUp(b *testing.B, p *process, load string) {
	status := make([]int, 4)
	for i := range status {
		resp, err := http.Get(p.url)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		status[i] = resp.StatusCode
	}
	want := map[string]int{"pass": http.StatusOK, "deny": http.StatusTooManyRequests}[load]
	if status[0] != http.StatusOK || status[3] != want {
		b.Fatalf("four requests were answered %v, want 200 first and %d last", status, want)
	}
}

// request sends b.N requests over a fixed number of connections that stay open.
func request(b *testing.B, p *process, load string) {
	host := strings.TrimPrefix(p.url, "http://")
	status := map[string]string{"pass": "200", "deny": "429"}[load]
	var left atomic.Int64
	left.Store(int64(b.N))
	before := p.cpu(b)
	b.ResetTimer()
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			if err := repeat(host, status, &left); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64((p.cpu(b)-before).Nanoseconds())/float64(b.N), "ns-cpu/req")
}

// repeat asks over one connection until nothing is left. It parses no more of an
// answer than its end, so that the client is never what is measured.
func repeat(host, status string, left *atomic.Int64) error {
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	ask := []byte("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	for left.Add(-1) >= 0 {
		if _, err := conn.Write(ask); err != nil {
			return err
		}
		if err := skipAnswer(in, status); err != nil {
			return err
		}
	}
	return nil
}

var lengthHeader = []byte("Content-Length: ")

func skipAnswer(in *bufio.Reader, status string) error {
	first, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(first) < 12 || string(first[9:12]) != status {
		return fmt.Errorf("answered %q, want status %s", first, status)
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if digits, ok := bytes.CutPrefix(line, lengthHeader); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(digits))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("an answer without Content-Length: the client of this benchmark reads no chunks")
	}
	_, err = in.Discard(length)
	return err
}
