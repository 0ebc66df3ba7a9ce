package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/internal/knock"
	mcpfront "github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/socket"
	"github.com/sluicegate/sluice/mcp/policy"
)

// openBrokerDoor is a door whose callers have all subjects that their tokens give.
func openBrokerDoor(c *config.Config, log *slog.Logger) (*door, error) {
	o, err := identityOptions(c, log)
	if err != nil {
		return nil, err
	}
	if m := c.MCP; m != nil {
		for i := range o.Issuers {
			o.Issuers[i].GroupClaims, o.Issuers[i].ClientClaim, o.Issuers[i].ServiceClaims = m.Subjects.Group, m.Subjects.Client, m.Subjects.Service
		}
	}
	return openDoor(c, o)
}

// knock takes what the address of a request may do before anything is looked at, and returns
// the address. The slots that it holds come back with the request's end.
func (s *mcpServer) knock(r *http.Request) (ip string, err error) {
	ip, site := s.door.Load().address(r)
	held, err := s.knocks.Knock(r.Context(), knock.Visitor{IP: ip, Site: site, Method: r.Method, Path: r.URL.Path})
	if len(held) > 0 {
		context.AfterFunc(r.Context(), held.Release)
	}
	return ip, err
}

// identify says who sends a request to the broker. A credential that is not good is nobody's,
// and not an anonymous caller's either.
func (s *mcpServer) identify(r *http.Request) (*policy.Caller, error) {
	ip, err := s.knock(r)
	if err != nil {
		return nil, turnedAway(err)
	}
	d := s.door.Load()
	shows := d.callers.Presents(r.Header)
	if shows {
		if refusal := s.knocks.Barred(r.Context(), ip); refusal != nil {
			return nil, turnedAway(refusal)
		}
	}
	f := d.callers.Resolve(r.Context(), r.Header, d.clients.Resolve(r.RemoteAddr, r.Header).Trusted)
	switch {
	case f.Verified:
		return callerOf(&f, ip), nil
	case shows && f.Err != nil:
		s.metrics.AuthFailure(f.Failure())
		if refusal := s.knocks.Guessed(r.Context(), ip); refusal != nil {
			return nil, turnedAway(refusal)
		}
		return nil, errors.New(strings.TrimPrefix(f.Err.Error(), "identity: "))
	}
	return &policy.Caller{IP: ip, Tier: d.anonymous}, nil
}

// callerOf is a verified caller as the policy knows it. Who shows an API key has no token that
// could say more, and is a client.
func callerOf(f *identity.Finding, ip string) *policy.Caller {
	p := &f.Principal
	who := policy.NewCaller(p.Subjects...)
	if p.Subjects == nil {
		who = policy.NewCaller("client:" + p.Subject)
	}
	who.Tenant, who.Tier, who.IP = p.Tenant, p.Tier, ip
	return who
}

// turnedAway is the answer to an address that may do no more for now.
func turnedAway(err error) *mcpfront.Failure {
	r, ok := errors.AsType[*sluice.Refusal](err)
	if !ok {
		return &mcpfront.Failure{Status: http.StatusServiceUnavailable, Message: "the broker cannot keep its books; try again", RetryAfter: time.Second}
	}
	return &mcpfront.Failure{Status: http.StatusTooManyRequests, Message: "too many requests of this address, by rule " + r.Rule, RetryAfter: r.RetryAfter}
}

// admit lets a provider in that dials in, and returns what gives it slots. An address that guesses
// secrets is held up like one that guesses keys.
func (s *mcpServer) admit(r *http.Request) (socket.Register, error) {
	ip, err := s.knock(r)
	if err != nil {
		return nil, notNow(err)
	}
	if !s.dialIn.Load() {
		return nil, &socket.Refused{Status: http.StatusNotFound, Text: "providers do not dial in here; name them in mcp.providers"}
	}
	if refusal := s.knocks.Barred(r.Context(), ip); refusal != nil {
		return nil, notNow(refusal)
	}
	who, err := s.policy().Authenticate(r.Header)
	if err != nil {
		s.metrics.AuthFailure("provider")
		if refusal := s.knocks.Guessed(r.Context(), ip); refusal != nil {
			return nil, notNow(refusal)
		}
		return nil, err
	}
	return func(slot string, l link.Link) (link.Inbox, error) { return s.broker.Register(slot, who, l) }, nil
}

// notNow turns an address away that dials in.
func notNow(err error) error {
	f := turnedAway(err)
	text := f.Message
	if f.RetryAfter > 0 { // a slot has no time at which it comes back
		text += fmt.Sprintf("; try again in %v", max(f.RetryAfter.Round(time.Second), time.Second))
	}
	return &socket.Refused{Status: f.Status, Text: text}
}
