package redis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// A proxy stands between a store and its server, and makes trouble.
type proxy struct {
	*toxiproxy.Proxy
	t testing.TB
}

func newProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &proxy{toxiproxy.NewProxy(server, "books", "127.0.0.1:0", upstream), t}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func (p *proxy) uri() string { return "redis://" + p.Listen }

func (p *proxy) add(kind, stream, attributes string) {
	p.t.Helper()
	json := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":{%s}}`, kind, kind, stream, attributes)
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(json)); err != nil {
		p.t.Fatal(err)
	}
}

// swallow lets nothing through to the server, and closes nothing.
func (p *proxy) swallow() { p.add("timeout", "upstream", `"timeout":0`) }

// swallowAnswers lets the server work, and nobody know.
func (p *proxy) swallowAnswers() { p.add("timeout", "downstream", `"timeout":0`) }

// delay makes every answer late.
func (p *proxy) delay(ms int) { p.add("latency", "downstream", fmt.Sprintf(`"latency":%d`, ms)) }

// reset cuts the connections.
func (p *proxy) reset() { p.add("reset_peer", "downstream", `"timeout":0`) }

// heal ends all trouble. What was swallowed stays lost, with its connection.
func (p *proxy) heal() { p.Toxics.ResetToxics(context.Background()) }

// A router brings connections to a server that can be changed, as a name does that is
// given another address: those that are open stay where they are.
type router struct {
	net.Listener
	to atomic.Value
}

func newRouter(t *testing.T, to string) *router {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &router{Listener: l}
	r.to.Store(to)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", r.to.Load().(string))
			if err != nil {
				in.Close()
				continue
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return r
}
