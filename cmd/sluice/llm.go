package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin/metrics"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// An llmServer is the gateway to language models.
type llmServer struct {
	http.Server
	gateway *llm.Gateway
	log     *slog.Logger
	metrics *metrics.Metrics
	now     llm.Options // in force
	door    atomic.Pointer[door]
	old     *door // until the next reload, which may be taken back
	// estimator is made with the first configuration.
	estimator *estimate.Estimator
}

func openLLM(p *program, c *config.Config) (server, error) {
	s := &llmServer{log: p.log, metrics: p.admin.Metrics()}
	o, d, err := s.options(c)
	if err != nil {
		return nil, err
	}
	if s.gateway, err = llm.New(p.controller, o); err != nil {
		return nil, err
	}
	s.now, p.models = o, s.gateway
	s.door.Store(d)
	s.Server = http.Server{
		Handler:           s.gateway,
		ReadHeaderTimeout: c.Bounds.HeaderTimeout,
		IdleTimeout:       c.Bounds.IdleTimeout,
		MaxHeaderBytes:    int(c.Bounds.HeaderBytes),
		ErrorLog:          gate.ErrorLog(p.log),
	}
	return s, nil
}

func inFrontOfModels(c *config.Config) string {
	var names []string
	if c.LLM != nil {
		for i := range c.LLM.Providers {
			names = append(names, c.LLM.Providers[i].Name)
		}
	}
	return "in front of " + strings.Join(names, ", ")
}

// options are those of the file, and how callers are recognised by it.
func (s *llmServer) options(c *config.Config) (llm.Options, *door, error) {
	o := llm.Options{Logger: s.log, BodyTime: c.Bounds.BodyTimeout}
	if s.metrics != nil {
		o.Observer = llmObserver(s.metrics)
	}
	l := c.LLM
	if l == nil || !l.Enabled {
		if c.Listen.LLM != "" {
			return o, nil, errors.New("listen.llm: there is no llm section that is enabled; write one, or take the address out")
		}
		return o, &door{}, nil
	}
	o.Unknown, o.Malformed = l.UnknownPaths == "forward", l.Malformed == "forward"
	if s.estimator == nil { // what is learned outlives a reload
		s.estimator = estimate.New(estimate.Options{ImageTokens: l.ImageTokens, AudioTokens: l.AudioTokens, FileTokens: l.FileTokens})
	}
	o.Estimator = s.estimator
	o.MaxBody, o.MaxAttempts = l.BodyBytes, 1+int(l.MaxRetries)
	o.QueueTimeout = time.Duration(l.QueueTimeoutMs) * time.Millisecond
	o.HeaderTimeout, o.PreambleTime, o.MaxDuration = l.HeaderTimeout, l.PreambleTimeout, l.MaxDuration
	if err := fromEnvironment(&o); err != nil {
		return o, nil, err
	}
	held := false
	for i := range l.Providers {
		p := providerOptions(&l.Providers[i])
		held = held || len(p.Keys) > 0
		if p.BaseURL != "" {
			o.Providers = append(o.Providers, p)
		}
	}
	for i := range l.Models {
		o.Models = append(o.Models, modelOptions(&l.Models[i]))
	}
	who, err := identityOptions(c, s.log)
	if err != nil {
		return o, nil, err
	}
	d, err := openDoor(c, who)
	if err != nil {
		return o, nil, err
	}
	d.strict, d.metrics = held && !l.Anonymous, s.metrics
	o.Address, o.Identify = d.address, d.identify
	return o, d, nil
}

func providerOptions(p *config.LLMProvider) llm.Provider {
	o := llm.Provider{Name: p.Name, Dialect: dialect.Name(p.Dialect), BaseURL: p.BaseURL, KeyHeader: p.KeyHeader, NoStreamUsage: !p.StreamUsage, Drain: p.Drain}
	if n := p.Counts; n != nil {
		o.Accounting = &llm.Accounting{Input: n.Input, CacheRead: n.CacheRead, CacheWrite: n.CacheWrite, Output: n.Output, Reserve: reserves[n.Reserve]}
	}
	for i, k := range p.Keys {
		o.Keys = append(o.Keys, llm.Key{ID: "key-" + strconv.Itoa(i+1), Secret: k.Reveal()})
	}
	return o
}

var reserves = map[string]llm.Reserve{"requested": llm.Requested, "learned": llm.Learned, "none": llm.NoOutput}

func modelOptions(m *config.LLMModel) llm.Model {
	micro := func(price float64) int64 { return int64(math.Round(price * 1e6)) }
	o := llm.Model{Name: m.Name, MaxOutput: m.MaxOutputTokens, Price: llm.Price{
		Input: micro(m.InputPrice), CacheRead: micro(m.CacheReadPrice), CacheWrite: micro(m.CacheWritePrice), Output: micro(m.OutputPrice)}}
	for _, t := range m.Targets {
		o.Targets = append(o.Targets, llm.Target{Provider: t.Provider, Model: t.Model, Translate: t.Translate})
	}
	return o
}

// fromEnvironment lets two variables say what the file says, for a container whose file is
// not its own: SLUICE_LLM_TIMEOUT_SECONDS and SLUICE_LLM_MAX_RETRIES. The names that the
// agents' client has for them are understood too.
func fromEnvironment(o *llm.Options) error {
	if name, v := firstSet("SLUICE_LLM_TIMEOUT_SECONDS", "SCIENCE_AGENT_LLM_TIMEOUT_SECONDS"); name != "" {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || n <= 0 || n > 1e6 {
			return fmt.Errorf("%s: %q is no time-out; write a number of seconds above zero", name, v)
		}
		o.HeaderTimeout = time.Duration(n * float64(time.Second))
	}
	if name, v := firstSet("SLUICE_LLM_MAX_RETRIES", "SCIENCE_AGENT_LLM_MAX_RETRIES"); name != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 10 {
			return fmt.Errorf("%s: %q is no number of retries; write 0 to 10", name, v)
		}
		o.MaxAttempts = 1 + n
	}
	return nil
}

// firstSet returns the first variable that is set, and its value.
func firstSet(names ...string) (name, value string) {
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			return name, v
		}
	}
	return "", ""
}

// A door says who comes in.
type door struct {
	callers   *identity.Resolver
	clients   *clientip.Resolver
	stop      context.CancelFunc
	strict    bool   // nobody is taken for their address alone
	anonymous string // the tier of those who are
	metrics   *metrics.Metrics
}

// openDoor makes a door that recognises callers as o says.
func openDoor(c *config.Config, o identity.Options) (*door, error) {
	ip := clientIPOptions(&c.Identity.ClientIP)
	clients, err := clientip.New(clientip.Options{Header: ip.Header, Trusted: ip.Trusted, Hops: ip.Hops, TrustUnix: ip.TrustUnix,
		IPv4Bits: ip.IPv4Prefix, IPv6Bits: ip.IPv6Prefix, NAT64: ip.NAT64})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	callers, err := identity.New(ctx, o)
	if err != nil {
		stop()
		return nil, err
	}
	return &door{callers: callers, clients: clients, stop: stop, anonymous: c.AnonymousTier}, nil
}

// errNoKey is what a caller is told who shows nothing that is good here.
var errNoKey = errors.New("the gateway knows no such key; show one of its own keys in the place of the provider's")

// siteBits is the prefix of IPv6 that one customer of a provider may hold.
const siteBits = 48

// address says where a request comes from, and from which site if that is IPv6.
func (d *door) address(r *http.Request) (ip, site string) {
	at := d.clients.Resolve(r.RemoteAddr, r.Header).Addr
	if at.Is6() {
		site = clientip.Identity(at, 32, siteBits)
	}
	return d.clients.Identity(at), site
}

// identify says who sends a request: by a key or token of this file in the place where an SDK
// puts the provider's, or by the address. A credential that is good here is sent to nobody.
func (d *door) identify(r *http.Request, credential string) (llm.Caller, error) {
	client := d.clients.Resolve(r.RemoteAddr, r.Header)
	h := http.Header{}
	switch {
	case strings.Count(credential, ".") == 2:
		h.Set("Authorization", "Bearer "+credential)
	case credential != "":
		h.Set("Authorization", "ApiKey "+credential)
	}
	tenant := d.callers.TenantHeader()
	if v, ok := r.Header[tenant]; ok && d.callers.BelievesTenant(client.Trusted) { // or it would be a way to ever new limits
		h[tenant] = v
	}
	f := d.callers.Resolve(r.Context(), h, client.Trusted)
	switch {
	case f.Verified || f.Found() && !d.strict:
		who := llm.Caller{Subject: f.Principal.Subject, Tenant: f.Principal.Tenant, Tier: f.Principal.Tier, Own: f.Verified && f.Source != tenant}
		if who.Tenant == "" {
			who.Tenant = who.Subject
		}
		return who, nil
	case d.strict:
		if f.Err != nil && d.metrics != nil {
			d.metrics.AuthFailure(f.Failure())
		}
		return llm.Caller{}, errNoKey
	}
	address := d.clients.Identity(client.Addr)
	return llm.Caller{Subject: address, Tenant: address, Tier: d.anonymous}, nil
}

// Serve implements server.
func (s *llmServer) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Reload reads keys and issuers anew. Addresses of the server do not change.
func (s *llmServer) Reload(c *config.Config) (undo func(), err error) {
	next, d, err := s.options(c)
	if err != nil {
		return nil, err
	}
	if err := s.gateway.Reload(next); err != nil {
		d.close()
		return nil, err
	}
	s.old.close()
	before, old := s.now, s.door.Swap(d)
	s.now, s.old = next, old
	return func() {
		s.now, s.old = before, nil
		s.door.Store(old)
		d.close()
		if err := s.gateway.Reload(before); err != nil {
			s.log.Error("serve: the gateway to models could not go back to the configuration before", "error", err)
		}
	}, nil
}

func (d *door) close() {
	if d != nil && d.stop != nil {
		d.stop()
	}
}

// Shutdown implements server.
func (s *llmServer) Shutdown(ctx context.Context) error {
	err := s.Server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.Server.Close())
	}
	settled, stop := context.WithTimeout(context.Background(), settleTime)
	defer stop()
	return errors.Join(err, s.gateway.Wait(settled))
}

// settleTime is how long the requests that were cut off have to settle.
const settleTime = 5 * time.Second

// Close implements server.
func (s *llmServer) Close() {
	s.old.close()
	s.door.Load().close()
}

// llmObserver feeds the metrics.
func llmObserver(m *metrics.Metrics) llm.Observer {
	return llm.Observer{
		Attempted: func(a llm.Attempted) {
			e := metrics.LLMAttempt{Provider: a.Provider, Model: a.Model, Class: strings.ReplaceAll(a.Class.String(), " ", "_"),
				Waited: a.Waited, Took: a.Took, Reserved: a.Reserved, Settled: a.Settled, Estimated: a.Estimated}
			if a.Failed {
				e.Class = "failed"
			}
			if a.Told {
				e.Input = a.Usage.Prompt()
			}
			m.Attempted(e)
		},
		Answered: func(a llm.Answered) {
			refused := ""
			if a.Refused != sluice.ReasonNone {
				refused = a.Refused.String()
			}
			m.ModelAnswered(a.Operation.String(), a.Status, a.Failovers, refused)
		},
	}
}
