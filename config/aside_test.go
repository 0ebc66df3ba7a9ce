package config

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/memory"
)

// A request is one unit of a rule that names no kind, whatever calls its surface makes
// besides; and C-38, requests of MCP that are no call of a tool are none.
func TestRuleWithoutKind(t *testing.T) {
	c := load(t, map[string]string{"a.yaml": `
rules:
  - {id: all, groupBy: [ip], window: 1/h}
  - {id: some, match: {not: {tier: system, kind: llm}}, groupBy: [ip], window: 1/h}
  - {id: named, match: {kind: frame}, groupBy: [ip], window: 1/h}
`})
	ctl, err := sluice.Open(c.Policy(), memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string][]string{
		KindHTTP: {"all", "some"}, KindLLM: {"all"}, KindTool: {"all", "some"}, KindMethod: nil, "": {"all", "some"},
		KindPreAuth: nil, KindPreAuthSite: nil, KindAuthFailure: nil, KindStream: nil, KindFrame: {"named"},
	} {
		e, err := ctl.Check(t.Context(), sluice.Call{Kind: kind, IP: "ip:192.0.2.1"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range e.Rules {
			if r.Matched && (r.Rule == "all" || r.Rule == "some" || r.Rule == "named") {
				got = append(got, r.Rule)
			}
		}
		if len(got) != len(want) {
			t.Errorf("a call of kind %q counts at %v, want %v", kind, got, want)
		}
	}
}
