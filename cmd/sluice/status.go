package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A status is what a running sluice says of itself, as far as people are shown it.
type status struct {
	Enabled    bool              `json:"enabled"`
	Backend    string            `json:"backend"`
	Keys       int64             `json:"activeBuckets"`
	Decisions  map[string]uint64 `json:"decisions"`
	Rules      []ruleStatus      `json:"rules"`
	TopTalkers []talkerStatus    `json:"topTalkers"`
	State      struct {
		Draining     bool       `json:"draining"`
		NotReady     string     `json:"notReady"`
		Degraded     bool       `json:"degraded"`
		StoreFault   string     `json:"storeFault"`
		ConfigHash   string     `json:"configHash"`
		ConfigLoaded *time.Time `json:"configLoaded"`
		ReloadError  string     `json:"reloadError"`
	} `json:"state"`
}

type ruleStatus struct {
	ID      string   `json:"id"`
	Limits  []string `json:"limits"`
	GroupBy []string `json:"groupBy"`
	Shadow  bool     `json:"shadow"`
	Hits    float64  `json:"hitsPerSecond"`
	Refused float64  `json:"refusedRatio"`
	Waiting int      `json:"waiting"`
	Held    int      `json:"held"`
}

type talkerStatus struct {
	Label   string  `json:"label"`
	Rate    float64 `json:"perSecond"`
	Refused float64 `json:"refusedPerSecond"`
	Rule    string  `json:"rule"`
}

func newStatus(s streams) *cobra.Command {
	var (
		at     remote
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say what a running sluice does",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var raw json.RawMessage
			if err := at.ask(cmd.Context(), http.MethodGet, "/actuator/ratelimits", nil, &raw); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(s.out, raw)
			}
			var now status
			if err := json.Unmarshal(raw, &now); err != nil {
				return fmt.Errorf("%s answers, but not as a sluice of this version: %w", at.addr, err)
			}
			return now.write(s.out)
		},
	}
	f := cmd.Flags()
	at.flags(f, defaultAdmin, "the `address` of the administration")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// talkersShown is how many callers a status lists.
const talkersShown = 10

func (st *status) write(w io.Writer) error {
	fmt.Fprintf(w, "%s. %s, %s kept.\n", st.mood(), st.Backend, count(int(st.Keys), "key"))
	if st.State.ConfigLoaded != nil {
		fmt.Fprintf(w, "Configuration %s, loaded %s.\n", st.State.ConfigHash, st.State.ConfigLoaded.Local().Format(time.DateTime))
	}
	if st.State.ReloadError != "" {
		fmt.Fprintf(w, "The last reload failed; this configuration is older than the files:\n  %s\n", strings.ReplaceAll(st.State.ReloadError, "\n", "\n  "))
	}
	fmt.Fprintf(w, "Decisions since the start: %d admitted, %d refused.\n\n", st.Decisions["allowed"], st.Decisions["refused"])
	var rules, callers table
	rules.row("RULE", "LIMITS", "EACH", "PER SECOND", "REFUSED", "WAITING", "RUNNING")
	for _, r := range st.Rules {
		each := strings.Join(r.GroupBy, " and ")
		if r.Shadow {
			each += ", shadow"
		}
		rules.row(r.ID, strings.Join(r.Limits, " and "), each, fmt.Sprintf("%.1f", r.Hits),
			fmt.Sprintf("%.0f %%", 100*r.Refused), strconv.Itoa(r.Waiting), strconv.Itoa(r.Held))
	}
	if err := rules.write(w, ""); err != nil || len(st.TopTalkers) == 0 {
		return err
	}
	fmt.Fprintln(w)
	callers.row("CALLER", "PER SECOND", "REFUSED PER SECOND", "REFUSED BY")
	for _, c := range st.TopTalkers[:min(talkersShown, len(st.TopTalkers))] {
		callers.row(c.Label, fmt.Sprintf("%.1f", c.Rate), fmt.Sprintf("%.1f", c.Refused), c.Rule)
	}
	return callers.write(w, "")
}

// mood is one word or two about how things are.
func (st *status) mood() string {
	switch {
	case st.State.Draining:
		return "Stopping"
	case st.State.NotReady != "":
		return "Not ready: " + st.State.NotReady
	case st.State.StoreFault != "":
		return "Degraded: the store does not answer: " + st.State.StoreFault
	case st.State.Degraded:
		return "Degraded: the store does not answer"
	case !st.Enabled:
		return "Running, with limits turned off"
	}
	return "Running"
}
