package mcp

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/resource"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// Options of a broker. What can be changed while it runs is taken over by [Broker.Reload].
type Options struct {
	// Slots are the providers' places. A provider may also dial into one that is not
	// listed, if the policy lets it serve there.
	Slots []Slot
	// Policy says who may do what. Nil lets everybody do everything, knows no provider and
	// no operator.
	Policy *policy.Policy
	// Table says how errors look in each era. Nil is the default.
	Table *protocol.Table
	// Limits is set if there is a limits block, even one without rules: it makes batches
	// with tools refused, and lists the tool that releases calls.
	Limits bool
	// Requirements are the rules that want reservations; Order are the block's rules, in
	// configuration order.
	Requirements []Requirement
	Order        []string
	// StartWithin is how long after a reservation its work may begin, by rule. A rule that is not
	// listed lets it begin as long as its window, and a minute at most.
	StartWithin map[string]time.Duration
	// Methods is set if a rule is about requests other than calls of tools.
	Methods bool
	// ForwardCancel are rules whose slots stay held after a cancellation, of which the
	// provider is told all the same.
	ForwardCancel []string
	// Takeover says when a provider may take a slot that its other connection holds.
	Takeover TakeoverMode
	// DialledTimeout is the RequestTimeout of slots that nobody has configured.
	DialledTimeout time.Duration
	// ListTimeout bounds how long a provider may take to list its tools; what the others
	// have is shown without it. It has to be shorter than a slot's ConnectTimeout, or one that
	// lists nothing is never connected. Zero is 5 s.
	ListTimeout time.Duration
	// MaxName is the longest name of a tool in _all. Zero is 128. A longer one is cut, and
	// ends in a digest of the whole.
	MaxName int

	// What follows cannot be changed while the broker runs.

	// Name and Version are what the broker calls itself.
	Name, Version string
	// Secret signs what clients carry for the broker, and names reservations. Nil draws
	// one: then nobody can go on after a restart.
	Secret []byte
	// CacheBytes bounds the results that are kept. Zero is 64 MiB.
	CacheBytes int
	// Grace is how long Close waits for calls that are under way.
	Grace time.Duration
	// Durable says that the controller's store outlives the process, for diagnosis.
	Durable bool
	// StoreFault says why the controller's store does not take what has to be kept, empty if it
	// does: a disk that is full can be read all the same. Nil is a store that does not say.
	StoreFault func() string
	// Audit hears of everything that is done. It must not block. Nil is nobody.
	Audit func(audit.Event)
	// Logger gets what operators should know. Nil is silence.
	Logger *slog.Logger
}

// A Slot is a place for one provider.
type Slot struct {
	// Name is what clients and rules call it. Letters, digits and ._- only.
	Name string
	// Dialer calls the provider. Nil is a slot that a provider dials into.
	Dialer link.Dialer
	// Mark tells one configuration from another: a slot that keeps its mark keeps its
	// connection when the broker takes over new options.
	Mark string
	// Protocol is "auto", "legacy" or "modern". Empty is auto.
	Protocol string
	// RequestTimeout is how long a request may take, zero for ever. Progress extends it,
	// but not beyond MaxRequest; a MaxRequest of zero lets nothing extend it.
	RequestTimeout, MaxRequest time.Duration
	// ToolTimeouts are those of single tools, instead.
	ToolTimeouts map[string]ToolTimeout
	// ConnectTimeout bounds the connecting and the handshake. Zero is 10 s.
	ConnectTimeout time.Duration
	// ExitProvesStop frees the slots that calls hold when the provider's process ends.
	ExitProvesStop bool
	// MaxResult bounds an answer in bytes. Zero is 16 MiB.
	MaxResult int
	// NoValidation lets arguments through that do not fit the tool's schema.
	NoValidation bool
	// Cache says which tools' results may be given again.
	Cache []CacheRule
	// Prefix stands before its tools' names in _all. Nil is the name and "-".
	Prefix *string
	// Tools are the tools that are offered. Nil is all.
	Tools []string
}

// A ToolTimeout says how long a call of one tool may take; see [Slot].
type ToolTimeout struct{ Request, MaxRequest time.Duration }

// A CacheRule lets results of a tool be given again.
type CacheRule struct {
	Tool string
	TTL  time.Duration
	// Shared gives them to every caller who may call the tool; otherwise each has its own.
	Shared bool
	// Writes allows it for a tool that does not say that it only reads.
	Writes bool
}

// compile checks the options and fills in what is left out.
func (o *Options) compile() error {
	seen := map[string]bool{}
	for i := range o.Slots {
		s := &o.Slots[i]
		if !slotName.MatchString(s.Name) || seen[s.Name] {
			return fmt.Errorf("mcp: %q is not the name of a slot, or the second of that name: 1 to 128 of letters, digits and ._-, the first a letter or digit", s.Name)
		}
		seen[s.Name] = true
	}
	o.Requirements = slices.Clone(o.Requirements)
	for i := range o.Requirements {
		r := &o.Requirements[i]
		if r.Resource == "" {
			continue
		}
		var err error
		if r.pattern, err = resource.Parse(r.Resource); err != nil {
			return fmt.Errorf("mcp: rule %s: %w", r.Rule, err)
		}
	}
	if o.Table == nil {
		o.Table = protocol.Default()
	}
	return nil
}

// slotName is what a slot may be called: it is part of paths, of names of tools and of
// rules. Names with a leading underscore are the broker's own.
var slotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// forwardsCancel reports whether a provider is told of a cancellation although rules go on
// holding the call's slots.
func (o *Options) forwardsCancel(held []string) bool {
	for _, rule := range held {
		for _, f := range o.ForwardCancel {
			if f == baseRule(rule) {
				return true
			}
		}
	}
	return false
}
