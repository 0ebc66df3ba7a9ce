package mcp

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
)

// A Severity says how bad a problem is.
type Severity string

// The severities, the worst first.
const (
	Fault   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// rank puts the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Fault, Warning, Info}, s) }

// A Problem is something that is wrong, and what to do.
type Problem struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Slot     string   `json:"slot,omitempty"`
	Symptom  string   `json:"symptom"`
	Evidence any      `json:"evidence"`
	Fix      string   `json:"fix"`
}

// longHeld is the age from which a call that holds slots is worth a look, lately how old a
// refusal may be that still is.
const (
	longHeld = time.Minute
	lately   = time.Hour
)

// limitProblems is what is wrong with the limits. Refusals are the newest first.
func (b *Broker) limitProblems(s *survey, l *LimitsInfo, refusals []audit.Event) []Problem {
	list := []Problem{}
	if l.StorageFault != nil {
		list = append(list, Problem{ID: "limits-storage-fault", Severity: Fault, Symptom: "The ledger does not work; calls that it controls are refused",
			Evidence: *l.StorageFault, Fix: "Look at the disk or the server of the store. Service resumes by itself when it works again."})
	}
	if n := len(s.overdue); n > 0 {
		list = append(list, Problem{ID: "limits-reservations-expired", Severity: Warning, Symptom: number(n, "reservation") + pick(n == 1, " has", " have") + " expired without a settlement",
			Evidence: map[string]any{"count": n, "first": s.overdue[:min(n, 10)]}, Fix: "Look whether the provider crashed, or does not settle. The units stay debited for their window."})
	}
	long := slices.DeleteFunc(slices.Clone(s.calls), func(h Held) bool { return h.Age < longHeld || len(h.Rules) == 0 })
	if n := len(long); n > 0 {
		list = append(list, Problem{ID: "limits-calls-held", Severity: Warning, Symptom: number(n, "call") + pick(n == 1, " has", " have") + " held slots for over a minute",
			Evidence: map[string]any{"count": n, "first": long[:min(n, firstCalls)]}, Fix: "Make sure that a call's work has stopped, then free it: broker_limits_release, sluice release, or the admin page."})
	}
	byLimits := slices.DeleteFunc(slices.Clone(refusals), func(e audit.Event) bool {
		return e.Outcome != audit.Refused || e.Action != audit.Admit && e.Action != audit.Reserve || time.Since(e.Time) > lately
	})
	if n := len(byLimits); n > 0 {
		list = append(list, Problem{ID: "limits-admission-refused", Severity: Info, Symptom: number(n, "refusal") + " by limits lately",
			Evidence: byLimits[:min(n, 10)], Fix: "Expected if a rule is doing its work; otherwise raise the rule named, or call less often."})
	}
	return list
}

func (b *Broker) providerProblems(slots []ProviderStatus, twice []listed) (list []Problem) {
	for _, s := range slots {
		switch {
		case !s.Connected && s.Kind == "dialled":
			list = append(list, Problem{ID: "provider-absent", Severity: Fault, Slot: s.Slot, Symptom: "The provider is not connected", Evidence: s.Error,
				Fix: "Look at its command or address, and at the broker's log."})
		case !s.Connected:
			list = append(list, Problem{ID: "provider-absent", Severity: Warning, Slot: s.Slot, Symptom: "No provider has dialled in", Evidence: s.Error, Fix: "Start the provider, and look at its secret."})
		case s.ToolsError != "":
			list = append(list, Problem{ID: "provider-tools-unknown", Severity: Warning, Slot: s.Slot, Symptom: "The provider does not list its tools; arguments are not checked", Evidence: s.ToolsError, Fix: "Look at the provider."})
		}
		if s.BadFrames > 0 {
			list = append(list, Problem{ID: "provider-bad-frames", Severity: Info, Slot: s.Slot, Symptom: "The provider sends what is no message", Evidence: s.BadFrames,
				Fix: "A program that prints to its standard output does that; its words belong on standard error."})
		}
		if p := b.slotNamed(s.Slot); p != nil {
			if bad := p.tools.Load().problems(); len(bad) > 0 {
				list = append(list, Problem{ID: "provider-tools", Severity: Info, Slot: s.Slot, Symptom: number(len(bad), "schema") + " of tools cannot be used as written",
					Evidence: bad[:min(len(bad), 20)], Fix: "Mend the schemas in the provider."})
			}
		}
	}
	for _, l := range twice {
		list = append(list, Problem{ID: "aggregate-name-taken", Severity: Warning, Slot: l.slot.name, Symptom: "Another provider's tool has this one's name in _all, and counts", Evidence: l.name, Fix: "Give one of the slots another prefix."})
	}
	return list
}
