package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// write prints the answer for people: what was asked, who is who, each rule, and the
// outcome last, where a terminal shows it.
func (a *answer) write(w io.Writer) error {
	fmt.Fprintf(w, "%s %s from %s\n\n", a.Method, a.Target, a.From)
	if a.Verdict == "malformed" && a.Path.Canonical == "" {
		_, err := fmt.Fprintf(w, "%d %s: %s\nNothing is taken.\n", a.Status, http.StatusText(a.Status), a.Problem)
		return err
	}
	if err := a.writeParties(w); err != nil {
		return err
	}
	if err := a.writeRules(w); err != nil {
		return err
	}
	return a.writeVerdict(w)
}

// writeParties prints whose request it is and what it is for.
func (a *answer) writeParties(w io.Writer) error {
	var t table
	line := func(name, value string, why ...string) {
		if value != "" {
			t.row(name, value, join("; ", why...))
		}
	}
	line("client", a.Client.Identity, a.Client.Why)
	for _, h := range a.Client.Hops {
		t.row("", "", "  "+h)
	}
	if len(a.Client.Ignored) > 0 {
		t.row("", "", "  not believed: "+strings.Join(a.Client.Ignored, ", "))
	}
	line("caller", a.Caller.Subject, a.Caller.Label, a.Caller.Why)
	line("tier", a.Caller.Tier)
	line("tenant", a.Caller.Tenant)
	line("groups", strings.Join(a.Caller.Groups, ", "))
	spelling := "as it is spelt"
	if !a.Path.Clean {
		spelling = "the plain form of what was sent"
	}
	line("path", a.Path.Canonical, spelling)
	endpoint := a.Path.Endpoint
	if endpoint == "" {
		endpoint = "none"
	}
	line("endpoint", endpoint, a.Path.EndpointWhy)
	line("upstream", a.Path.Upstream)
	if a.Path.Cost != 1 || a.Path.Capability != "" {
		line("cost", count(int(a.Path.Cost), "call"), a.Path.Capability)
	}
	return t.write(w, "")
}

// join puts a separator between those texts that are not empty.
func join(between string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" }), between)
}

// writeRules prints the rules that are about the request, then the others and why not.
func (a *answer) writeRules(w io.Writer) error {
	if len(a.Rules) == 0 {
		return nil
	}
	var its, others table
	for _, r := range a.Rules {
		switch {
		case !r.Matched:
			others.row("· "+r.Rule, r.Why, r.Source)
		case len(r.Limits) == 0: // the request lacks what the rule groups by
			its.row("✗ "+r.Rule, r.Why, "", r.Key, r.Source)
		}
		for _, l := range r.Limits {
			its.row(l.mark()+r.Rule+r.mode(), withLease(l.Limit, l.Lease), l.change(), r.Key, r.Source)
		}
	}
	fmt.Fprintln(w, "\nrules about it")
	if err := its.write(w, "  "); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nrules about others")
	return others.write(w, "  ")
}

// withLease is a limit, and what of it may be ahead.
func withLease(limit, lease string) string {
	if lease == "" {
		return limit
	}
	return limit + " (" + lease + ")"
}

func (r *ruleAnswer) mode() string {
	if r.Shadow {
		return " (shadow)"
	}
	return ""
}

func (l *limitAnswer) mark() string {
	if l.Refused {
		return "✗ "
	}
	return "✓ "
}

// change says what the request would do to a limit.
func (l *limitAnswer) change() string {
	if l.Refused && l.NextMs > 0 {
		return fmt.Sprintf("%d of %d left, one more in %v", l.Before, l.Of, milliseconds(l.NextMs))
	}
	if l.Refused || l.Before == l.After {
		return fmt.Sprintf("%d of %d left", l.Before, l.Of)
	}
	return fmt.Sprintf("%d → %d of %d left", l.Before, l.After, l.Of)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// writeVerdict prints the outcome and what the answer would say.
func (a *answer) writeVerdict(w io.Writer) error {
	text := a.Verdict
	if a.Status != 0 {
		text += fmt.Sprintf(": %d %s", a.Status, http.StatusText(a.Status))
	}
	if a.Problem != "" {
		text += ": " + a.Problem
	}
	if r := a.Refusal; r != nil {
		text += fmt.Sprintf(" by %s (%s)", strings.Join(r.Violated, ", "), r.Reason)
		switch {
		case r.Permanent:
			text += "; it can never pass"
		case r.RetryAfterMs > 0:
			text += fmt.Sprintf("; it would pass in %v", milliseconds(r.RetryAfterMs))
		}
	}
	fmt.Fprintf(w, "\n%s\n", text)
	var names []string
	for name := range a.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range a.Headers[name] {
			fmt.Fprintf(w, "  %s: %s\n", name, v)
		}
	}
	return nil
}
