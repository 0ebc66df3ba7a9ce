package main

import (
	"fmt"
	"time"

	"github.com/sluicegate/sluice/store/file"
)

// A ledgerSummary is a [file.Summary] for machines.
type ledgerSummary struct {
	Path    string    `json:"path"`
	Version int       `json:"version"`
	Begun   time.Time `json:"begun"`
	Written time.Time `json:"written"`
	Frames  uint64    `json:"frames"`
	Bytes   int64     `json:"bytes"`
	Limits  int       `json:"limitCount"`
	Keys    int       `json:"keyCount"`
	Open    int       `json:"open"`
	Ended   int       `json:"ended"`
}

func summaryOf(s file.Summary) ledgerSummary {
	return ledgerSummary{s.Path, s.Version, s.Begun.UTC(), s.Written.UTC(), s.Frames, s.Bytes, s.Rules, s.Cells, s.Open, s.Ended}
}

func (v verification) json() any { return summaryOf(file.Summary(v)) }

func (c *compaction) json() any {
	return map[string]ledgerSummary{"before": summaryOf(c.before), "after": summaryOf(c.after)}
}

func (r *recovery) json() any {
	return struct {
		Kept  string        `json:"kept"`
		Saved ledgerSummary `json:"saved"`
	}{r.kept, summaryOf(r.saved)}
}

// A ledgerContents is an [inspection] for machines.
type ledgerContents struct {
	ledgerSummary
	Limits     []ledgerLimit     `json:"limits"`
	Keys       []ledgerKey       `json:"keys"`
	Admissions []ledgerAdmission `json:"admissions"` // the open ones first
}

type ledgerLimit struct {
	Rule    string `json:"rule"`
	Name    string `json:"name"`
	Limit   string `json:"limit"`
	GroupBy string `json:"groupBy,omitempty"`
}

type ledgerKey struct {
	Key    string  `json:"key"`
	Rule   string  `json:"rule,omitempty"` // absent if the rule is not known
	Name   string  `json:"name,omitempty"`
	Limit  string  `json:"limit"`
	Max    int64   `json:"max"`
	Left   int64   `json:"left"`
	FullIn float64 `json:"fullInSeconds"` // counted from the last frame
}

type ledgerAdmission struct {
	ID      string     `json:"id"`
	Since   time.Time  `json:"since"`
	Ended   *time.Time `json:"ended,omitempty"`   // absent while it is open
	Expires *time.Time `json:"expires,omitempty"` // absent if it does not
	Settled bool       `json:"settled"`
	Outcome uint8      `json:"outcome"`        // of the settlement
	Used    []int64    `json:"used,omitempty"` // by limit, -1 as taken
	Holds   []string   `json:"holds"`
	Note    string     `json:"note,omitempty"` // absent if it is not text
	Noted   int        `json:"noteBytes"`
}

func (c *inspection) json() any {
	out := ledgerContents{summaryOf(c.Summary), []ledgerLimit{}, []ledgerKey{}, []ledgerAdmission{}}
	for _, o := range c.Owners {
		out.Limits = append(out.Limits, ledgerLimit{o.Rule, o.Name, o.Limit.String(), o.Group})
	}
	for _, x := range c.Cells {
		out.Keys = append(out.Keys, ledgerKey{fmt.Sprintf("%016x%016x", x.Key.Group, x.Key.Cell), x.Owner.Rule, x.Owner.Name,
			x.Owner.Limit.String(), x.Level.Max, x.Level.Left, x.Level.Full.Duration().Seconds()})
	}
	for i := range c.Grants {
		g := &c.Grants[i]
		a := ledgerAdmission{
			ID: idText(g.ID), Since: c.moment(g.At).UTC(), Settled: g.Settled, Outcome: g.Outcome, Used: g.Used,
			Holds: c.held(g), Noted: len(g.Note),
		}
		if isText(g.Note) {
			a.Note = string(g.Note)
		}
		if g.Expires > 0 {
			until := c.moment(g.Expires).UTC()
			a.Expires = &until
		}
		if g.Released {
			end := c.moment(g.Ended).UTC()
			a.Ended = &end
		}
		out.Admissions = append(out.Admissions, a)
	}
	return out
}
