package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// holds says in a line what is in a ledger.
func holds(s file.Summary) string {
	return fmt.Sprintf("%s of %s, %s that are open, %d ended; %s, last written %s",
		count(s.Cells, "key"), count(s.Rules, "limit"), count(s.Open, "admission"), s.Ended,
		count(int(s.Bytes), "byte"), s.Written.Local().Format(time.DateTime))
}

// A verification is a ledger that is whole.
type verification file.Summary

func (v verification) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s is whole: %s.\n", v.Path, holds(file.Summary(v)))
	return err
}

// A compaction is a ledger before and after it.
type compaction struct{ before, after file.Summary }

func (c *compaction) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s had %s and has %s: %s.\n", c.after.Path, count(int(c.before.Frames), "frame"),
		count(int(c.after.Frames), "frame"), holds(c.after))
	return err
}

// A recovery is what was saved, and where the damaged ledger is now.
type recovery struct {
	kept  string
	saved file.Summary
}

func (r *recovery) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "Saved in %s: %s.\nWhat came after that is lost. The damaged ledger is %s.\n", r.saved.Path, holds(r.saved), r.kept)
	return err
}

// An inspection is everything that is in a ledger.
type inspection struct{ file.Contents }

// inspect reads a ledger; its limits come in the order of their names.
func inspect(path string) (*inspection, error) {
	c, err := file.Inspect(path)
	slices.SortFunc(c.Owners, func(a, b ledger.Owner) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Name, b.Name))
	})
	return &inspection{c}, err
}

// moment is when a time of the store was, by the wall clock of the last frame.
func (c *inspection) moment(at limit.Micros) time.Time { return c.Written.Add((at - c.Now).Duration()) }

func ownerName(o *ledger.Owner) string {
	if o.Rule == "" {
		return "(a rule that is not known)"
	}
	return o.Rule
}

func idText(id ledger.ID) string { return fmt.Sprintf("%016x%016x", id.Hi, id.Lo) }

func (c *inspection) write(w io.Writer) error {
	fmt.Fprintf(w, "%s, version %d: %s.\n\n", c.Path, c.Version, holds(c.Summary))
	if err := c.writeLimits(w); err != nil || c.Open == 0 {
		return err
	}
	fmt.Fprintln(w)
	var open table
	open.row("OPEN ADMISSION", "SINCE", "IS", "HOLDS", "NOTE")
	for i := range c.Grants[:c.Open] {
		g := &c.Grants[i]
		open.row(idText(g.ID), c.moment(g.At).Local().Format(time.DateTime), c.condition(g), strings.Join(c.held(g), ", "), noteText(g.Note))
	}
	return open.write(w, "")
}

// condition says how long an admission is good for work to begin, if that has an end, and
// whether it is settled. The time is that of the last frame.
func (c *inspection) condition(g *file.Grant) string {
	var is []string
	switch until := c.moment(g.Expires).Local().Format(time.DateTime); {
	case g.Expires == 0:
	case g.Expires > c.Now:
		is = append(is, "good until "+until)
	default:
		is = append(is, "expired "+until)
	}
	switch {
	case g.Settled && g.Outcome > 0:
		is = append(is, fmt.Sprintf("settled as %d", g.Outcome))
	case g.Settled:
		is = append(is, "settled")
	}
	return strings.Join(is, ", ")
}

// noteText is a note for people: its beginning if it is text, else how long it is.
func noteText(note []byte) string {
	text, most := []rune(string(note)), 60
	switch {
	case !isText(note):
		return count(len(note), "byte")
	case len(text) > most:
		return string(text[:most-1]) + "…"
	}
	return string(text)
}

// isText reports whether a terminal can be given b as it is.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return !unicode.IsPrint(r) })
}

// writeLimits prints a row for each limit: how many keys have used some of it, and how
// much the one has left that has least.
func (c *inspection) writeLimits(w io.Writer) error {
	type use struct {
		keys  int
		least limit.Level
	}
	uses := map[uint64]use{}
	for i := range c.Cells {
		cell := &c.Cells[i]
		u := uses[cell.Owner.Pool]
		if u.keys++; u.keys == 1 || cell.Level.Left < u.least.Left {
			u.least = cell.Level
		}
		uses[cell.Owner.Pool] = u
	}
	var limits table
	limits.row("RULE", "LIMIT", "IS", "EACH", "KEYS", "LEAST LEFT")
	line := func(o *ledger.Owner) {
		u, least := uses[o.Pool], ""
		if u.keys > 0 {
			least = fmt.Sprintf("%d of %d", u.least.Left, u.least.Max)
		}
		limits.row(ownerName(o), o.Name, o.Limit.String(), strings.ReplaceAll(o.Group, ",", " and "), strconv.Itoa(u.keys), least)
		delete(uses, o.Pool)
	}
	for i := range c.Owners {
		line(&c.Owners[i])
	}
	for i := range c.Cells { // of rules that are not known
		if o := &c.Cells[i].Owner; uses[o.Pool].keys > 0 {
			line(o)
		}
	}
	return limits.write(w, "")
}

// held says what an admission has taken.
func (c *inspection) held(g *file.Grant) []string {
	held := []string{}
	for _, step := range g.Steps {
		if step.N > 0 {
			held = append(held, fmt.Sprintf("%d of %s", step.N, c.nameOf(&step)))
		}
	}
	return held
}

func (c *inspection) nameOf(step *ledger.Step) string {
	for i := range c.Owners {
		if o := &c.Owners[i]; o.Pool == step.Pool {
			return o.Rule + " " + o.Name
		}
	}
	return step.Limit.String()
}
