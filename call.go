// Package sluice decides when a call may start.
//
// Every limit is a capacity whose units come back by some rule ([limit.Limit]).
// A [Rule] puts limits on the calls that match it and says what a caller may do
// about a "not now". A [Policy] is all rules in force. A [Controller] takes all
// matching limits for a call, or none, and hands back an [Admission], or says why
// not with a [Refusal].
//
//	ctl, err := sluice.Open(policy, memory.New(memory.Options{}), sluice.Options{})
//	…
//	adm, err := ctl.Admit(ctx, sluice.Call{Subject: "user:alice"})
//	if err != nil {
//		return err // *sluice.Refusal, or ctx's error
//	}
//	defer adm.Release()
//
// The books live in a [Store]: store/memory for one process. The package itself
// imports the standard library alone.
package sluice

import (
	"time"

	"github.com/sluicegate/sluice/ledger"
)

// A Dimension is a property of a call that rules match on and group by.
type Dimension uint8

// The dimensions of a call. What a surface puts into each is in its own documentation;
// the comment says what the dimension is for.
const (
	Kind       Dimension = iota // what is asked: "http", "llm", "tool", "operation", "message"
	Subject                     // who asks, as its surface established it: "apikey:…", "user:…", "ip:…"
	Tenant                      // on whose account
	Tier                        // the class of the subject: "standard"
	IP                          // the client's address prefix, whoever it is: "ip:203.0.113.9"
	Provider                    // whom the call goes to
	Capability                  // what it does there: a tool, an operation class
	Resource                    // on what: an absolute path, matched as a pattern
	Method                      // how: an HTTP or JSON-RPC method
	Route                       // the endpoint policy a surface chose for the call
	Model                       // an LLM model
	Credential                  // the upstream credential used
	Channel                     // a chat channel or connector instance

	dimensions // how many there are
)

var dimensionNames = [dimensions]string{
	"kind", "subject", "tenant", "tier", "ip", "provider", "capability",
	"resource", "method", "route", "model", "credential", "channel",
}

// String returns the dimension's name as policies spell it, or "" if there is none.
func (d Dimension) String() string {
	if d >= dimensions {
		return ""
	}
	return dimensionNames[d]
}

// ParseDimension returns the dimension with that name.
func ParseDimension(name string) (Dimension, bool) {
	for i, n := range dimensionNames {
		if n == name {
			return Dimension(i), true
		}
	}
	return 0, false
}

// Dimensions returns the names of all dimensions, in their canonical order.
func Dimensions() []string { return append([]string(nil), dimensionNames[:]...) }

// A Unit is what a limit counts. The zero Unit is [Calls].
type Unit string

// Units that the surfaces use. A policy may name others.
const (
	Calls  Unit = "calls"  // one for each call
	Tokens Unit = "tokens" // LLM tokens
	Bytes  Unit = "bytes"  // octets of a body
)

// named returns u, and Calls for the zero Unit.
func (u Unit) named() Unit {
	if u == "" {
		return Calls
	}
	return u
}

// A Cost is how many units of each kind a call takes. A nil Cost is one of [Calls].
// A unit that is not listed costs nothing, except Calls, which then costs one.
type Cost []Amount

// An Amount is N units of one kind. With N below zero the call is refused as invalid,
// whatever rules match it; zero takes nothing and still needs a limit that admits something.
type Amount struct {
	Unit Unit
	N    int64
}

// Of returns how many of unit c takes.
func (c Cost) Of(unit Unit) int64 {
	unit = unit.named()
	if i := c.find(unit); i >= 0 {
		return c[i].N
	}
	if unit == Calls {
		return 1
	}
	return 0
}

// find returns the index of the first Amount of a named unit, -1 if there is none.
func (c Cost) find(unit Unit) int {
	for i := range c {
		if c[i].Unit.named() == unit {
			return i
		}
	}
	return -1
}

// negative reports whether some amount is below zero.
func (c Cost) negative() bool {
	for i := range c {
		if c[i].N < 0 {
			return true
		}
	}
	return false
}

// A Call is what asks to go ahead. Surfaces make Calls; they make nothing else.
// An empty field means that the call has no such property. The zero Call is valid:
// it matches every rule without selectors and costs one of [Calls].
type Call struct {
	Kind       string
	Subject    string
	Tenant     string
	Tier       string
	IP         string
	Provider   string
	Capability string
	Resource   string
	Method     string
	Route      string
	Model      string
	Credential string
	Channel    string

	// Subjects are further identities of the caller, such as its groups. A rule's
	// subject selector matches any of them; grouping never uses them, because
	// memberships change.
	Subjects []string

	Cost Cost

	// ID makes the admission idempotent: admitting the same ID again, while the store
	// remembers it, returns the same admission and takes nothing. It is open until somebody
	// releases it, even if the store failed or ctx ended before the first attempt was
	// answered: ask again, or Resume. Empty is a call that is never repeated. It may hold
	// any bytes.
	ID string
	// WhileHeld has the ID remembered only while the admission holds slots: a call that
	// takes none is admitted as if it had no ID, and one that does is forgotten with its
	// last slot, at the release or when [Free] or MaxHold gives that back. It is for calls
	// that are many, each with an ID of its own, of which nothing is worth knowing when they
	// have ended; such an ID is not used again.
	WhileHeld bool
	// Expires is for how long the admission is good for work to begin; see [Admission.Left].
	// What was taken stays taken after that, and is settled as ever while it is remembered:
	// for the store's retention and the longest window that it took from. Nobody has to
	// release it. Zero is for ever. It needs an ID: without one, with WhileHeld, if it is
	// negative, or if a rule wants slots, which somebody has to give back, the call is
	// refused as invalid. Slots of shadow rules are not taken.
	Expires time.Duration
	// Note is kept with the ID and given back by [Admission.Note] and
	// [Controller.Records]. What it says is the caller's business: it is no part of what
	// makes calls the same, and stores keep it as it is, in clear. A call with more than
	// MaxNote bytes is refused as invalid. Without an ID nothing keeps it.
	Note []byte
}

// MaxNote is how many bytes a [Call.Note] may have.
const MaxNote = ledger.MaxNote

// Get returns the call's value of d, empty if it has none.
func (c *Call) Get(d Dimension) string {
	switch d {
	case Kind:
		return c.Kind
	case Subject:
		return c.Subject
	case Tenant:
		return c.Tenant
	case Tier:
		return c.Tier
	case IP:
		return c.IP
	case Provider:
		return c.Provider
	case Capability:
		return c.Capability
	case Resource:
		return c.Resource
	case Method:
		return c.Method
	case Route:
		return c.Route
	case Model:
		return c.Model
	case Credential:
		return c.Credential
	case Channel:
		return c.Channel
	}
	return ""
}

// Set gives the call's dimension d the value v.
func (c *Call) Set(d Dimension, v string) {
	switch d {
	case Kind:
		c.Kind = v
	case Subject:
		c.Subject = v
	case Tenant:
		c.Tenant = v
	case Tier:
		c.Tier = v
	case IP:
		c.IP = v
	case Provider:
		c.Provider = v
	case Capability:
		c.Capability = v
	case Resource:
		c.Resource = v
	case Method:
		c.Method = v
	case Route:
		c.Route = v
	case Model:
		c.Model = v
	case Credential:
		c.Credential = v
	case Channel:
		c.Channel = v
	}
}
