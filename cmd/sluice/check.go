package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
)

func newCheck(s streams) *cobra.Command {
	var (
		from                  source
		format                string
		strict, rules, schema bool
	)
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Say what is wrong with a configuration",
		Long: `Reads files as serve would, laid over each other in order, and prints a line for each
problem: file:line:column, how bad, what, and what to do. The exit code is 1 if serve
would not start with them.`,
		Example: `  sluice check sluice.yaml
  sluice check base.yaml production.yaml --rules
  sluice check sluice.yaml --format github    # annotations in a workflow
  sluice check --schema > sluice.schema.json  # for an editor`,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 && !schema {
				return usageError{errors.New("it takes the files to check")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, files []string) error {
			if schema {
				_, err := s.out.Write(config.Schema())
				return err
			}
			write, ok := reports[format]
			if !ok {
				return usageError{fmt.Errorf("there is no format %q; use text, json or github", format)}
			}
			from.files = files
			return check(&from, strict, rules, func(r *report) error { return write(s.out, r) })
		},
	}
	f := cmd.Flags()
	from.setFlag(f)
	f.StringVar(&format, "format", "text", "text, json or github")
	f.BoolVar(&strict, "strict", false, "take warnings for errors")
	f.BoolVar(&rules, "rules", false, "print the rules that the files come to")
	f.BoolVar(&schema, "schema", false, "print the JSON Schema of the file and check nothing")
	complete(cmd, "format", "text", "json", "github")
	return cmd
}

// check reads the files and writes a report. It fails if they have errors.
func check(from *source, strict, rules bool, write func(*report) error) error {
	cfg, problems := config.Load(from.files, config.Options{Set: from.set, Strict: strict})
	r := &report{files: from.String(), problems: problems, count: -1}
	if cfg != nil {
		r.count = len(cfg.Policy().Rules)
		if rules {
			r.rules, r.survives = ruleLines(cfg.Policy(), shared(cfg)), cfg.Store.Backend != "in-memory"
		}
	}
	if err := write(r); err != nil {
		return err
	}
	if problems.Err() != nil {
		return errShown
	}
	return nil
}

// A report is what a check found.
type report struct {
	files    string
	problems config.Problems
	count    int        // of the rules; negative if the files come to none
	rules    []ruleLine // nil if nobody asked
	survives bool       // the books may survive a crash
}

// reports are the forms that a report may have.
var reports = map[string]func(io.Writer, *report) error{
	"text": reportText, "json": reportJSON, "github": reportGitHub,
}

func reportText(w io.Writer, r *report) error {
	for _, p := range r.problems {
		fmt.Fprintln(w, p)
	}
	if len(r.rules) > 0 {
		var t table
		row := func(id, limits, each, match, crash, source string) {
			cells := []string{id, limits, each, match, crash, source}
			if !r.survives {
				cells = slices.Delete(cells, 4, 5)
			}
			t.row(cells...)
		}
		row("RULE", "LIMITS", "EACH", "OF CALLS WHERE", "A CRASH", "FROM")
		for _, l := range r.rules {
			row(l.ID, l.limits(), l.each(), l.Match, l.crash(), l.Source)
		}
		if err := t.write(w, ""); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, r.summary())
	return err
}

// summary is the last line of a report.
func (r *report) summary() string {
	bad, odd := len(r.problems.Errors()), len(r.problems.Warnings())
	switch {
	case bad > 0 && odd > 0:
		return fmt.Sprintf("%s: %s, %s", r.files, count(bad, "error"), count(odd, "warning"))
	case bad > 0:
		return fmt.Sprintf("%s: %s", r.files, count(bad, "error"))
	case odd > 0:
		return fmt.Sprintf("%s: good, with %s; %s", r.files, count(odd, "warning"), count(r.count, "rule"))
	}
	return fmt.Sprintf("%s: good; %s", r.files, count(r.count, "rule"))
}

func reportJSON(w io.Writer, r *report) error {
	type problem struct {
		File     string      `json:"file"`
		Line     int         `json:"line,omitempty"`
		Column   int         `json:"column,omitempty"`
		Severity string      `json:"severity"` // "error" or "warning"
		Code     config.Code `json:"code"`
		Key      string      `json:"key,omitempty"`
		Message  string      `json:"message"`
	}
	out := struct {
		Good     bool       `json:"good"`
		Problems []problem  `json:"problems"`
		Rules    []ruleLine `json:"rules,omitempty"`
	}{r.problems.Err() == nil, []problem{}, r.rules}
	for _, p := range r.problems {
		out.Problems = append(out.Problems, problem{p.Pos.File, p.Pos.Line, p.Pos.Column, severity(p), p.Code, p.Key, p.Message})
	}
	return writeJSON(w, out)
}

func severity(p config.Problem) string {
	if p.Warning() {
		return "warning"
	}
	return "error"
}

// reportGitHub writes workflow commands, which GitHub shows at the lines they name.
// Their spelling is that of the actions toolkit, packages/core/src/command.ts.
func reportGitHub(w io.Writer, r *report) error {
	for _, p := range r.problems {
		text := p.Message
		if p.Key != "" {
			text = p.Key + ": " + text
		}
		fmt.Fprintf(w, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", severity(p),
			property.Replace(p.Pos.File), p.Pos.Line, p.Pos.Column, property.Replace("sluice "+string(p.Code)), message.Replace(text))
	}
	_, err := fmt.Fprintln(w, r.summary())
	return err
}

var (
	message  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// A ruleLine is a rule as people read it.
type ruleLine struct {
	ID      string   `json:"id"`
	Limits  []string `json:"limits"`
	GroupBy []string `json:"groupBy,omitempty"`
	Match   string   `json:"match"`
	Queue   bool     `json:"queue,omitempty"`
	Shadow  bool     `json:"shadow,omitempty"`
	// Leases say how units of each limit are taken ahead.
	Leases []string `json:"leases,omitempty"`
	// Volatile counters are forgotten in a crash, whatever the store.
	Volatile bool   `json:"volatile,omitempty"`
	Source   string `json:"source,omitempty"`
}

// shared reports whether processes share the store, so that it takes units ahead.
func shared(c *config.Config) bool {
	return c.Store.Backend != "in-memory" && c.Store.Backend != "file"
}

func ruleLines(p *sluice.Policy, leases bool) []ruleLine {
	lines := []ruleLine{}
	for i := range p.Rules {
		r := &p.Rules[i]
		l := ruleLine{ID: r.ID, Match: r.Match.String(), Queue: r.Queue != nil, Shadow: r.Shadow, Volatile: r.Volatile, Source: r.Source}
		for _, d := range r.GroupBy {
			l.GroupBy = append(l.GroupBy, d.String())
		}
		for _, lim := range r.Limits {
			l.Limits = append(l.Limits, limitText(r.Calendar, lim))
		}
		if leases {
			for _, lease := range r.Leases() {
				l.Leases = append(l.Leases, lease.String())
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// limits says how much, and what of it may be ahead.
func (l ruleLine) limits() string {
	texts := slices.Clone(l.Limits)
	for i, lease := range l.Leases {
		texts[i] = withLease(texts[i], lease)
	}
	return strings.Join(texts, " and ")
}

// each says who has a counter of its own.
func (l ruleLine) each() string {
	text := strings.Join(l.GroupBy, " and ")
	if text == "" {
		text = "all together"
	}
	if l.Queue {
		text += ", in line"
	}
	if l.Shadow {
		text += ", shadow"
	}
	return text
}

// crash says what a crash does to the counters.
func (l ruleLine) crash() string {
	if l.Volatile {
		return "forgets it"
	}
	return "keeps it"
}

func limitText(c *sluice.Calendar, l sluice.Limit) string {
	text := l.Limit.String()
	if c != nil {
		text = fmt.Sprintf("%d each %s", l.Max, c)
	}
	if l.Unit == "" || l.Unit == sluice.Calls {
		return text
	}
	return text + " " + string(l.Unit)
}
