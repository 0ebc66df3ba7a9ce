package config

import (
	"fmt"
	"testing"
	"time"
)

// TestSurvival is what a crash may forget if the file does not say.
func TestSurvival(t *testing.T) {
	for _, c := range []struct {
		name, file, rule string
		volatile         bool
	}{
		{"C-85 a tier is back within seconds", `tiers: {standard: 100/s burst 200}`, "tier-standard", true},
		{"C-85 a burst that is back within the hour", `tiers: {standard: 1000/h burst 100}`, "tier-standard", true},
		{"C-84 a rate that takes an hour to come back", `tiers: {standard: 1000/h}`, "tier-standard", false},
		{"C-84 a rate whose hour is no round number", `tiers: {standard: 7/h}`, "tier-standard", false},
		{"a tier that asks for speed", `tiers: {standard: {limit: 1000/h, volatile: true}}`, "tier-standard", true},
		{"a tier that asks for survival", `tiers: {standard: {limit: 10/s, volatile: false}}`, "tier-standard", false},
		{"slots of requests end with them", `tiers: {standard: {limit: 10/s, inFlight: 3}}`, "tier-standard", true},
		{"C-85 an endpoint", `endpoints: [{id: e, path: /a, limit: 30/min}]`, "e", true},
		{"C-84 an endpoint by the day", `endpoints: [{id: e, path: /a, limit: 30/1d}]`, "e", false},
		{"an endpoint that asks for speed", `endpoints: [{id: e, path: /a, limit: 30/1d, volatile: true}]`, "e", true},
		{"C-85 the limit of an address", `identity: {preAuth: 10/h}`, "preauth", true},
		{"C-84 a window of an hour", `rules: [{id: r, window: 5/1h}]`, "r", false},
		{"C-85 a window just below it", `rules: [{id: r, window: 5/59m}]`, "r", true},
		{"one long limit among short ones", `rules: [{id: r, limits: [{bucket: 1/s}, {window: 5/1d}]}]`, "r", false},
		{"C-84 a budget, however short", `rules: [{id: r, window: 5/1s, settle: keep}]`, "r", false},
		{"C-84 slots of work that goes on", `rules: [{id: r, slots: 5}]`, "r", false},
		{"C-84 slots of tools", `rules: [{id: r, match: {kind: [http, tool]}, slots: 5}]`, "r", false},
		{"slots of requests", `rules: [{id: r, match: {kind: http}, slots: 5}]`, "r", true},
		{"a pause that somebody asked for", `rules: [{id: r, cooldown: 1m}]`, "r", false},
		{"a limit that lets nothing pass", `rules: [{id: r, bucket: 0/1m}]`, "r", true},
		{"a rule that asks for speed", `rules: [{id: r, window: 5/1h, volatile: true}]`, "r", true},
		{"a rule that asks for survival", `rules: [{id: r, bucket: 5/s, volatile: false}]`, "r", false},
		{"C-84 calls of tools, however fast", `mcp: {limits: {rules: [{id: r, calls: {max: 3, windowMs: 1000}}]}}`, "r", false},
		{"C-85 starts of tools, however slow", `mcp: {limits: {rules: [{id: r, rate: {max: 3, windowMs: 86400000}}]}}`, "r:rate", true},
		{"a provider of models", `llm: {providers: {p: {requestsPerMinute: 5, maxConcurrentCalls: 2}}}`, "llm-p", true},
		{"what a source asked for", `sources: [{id: s, governance: {minIntervalMs: 3000}}]`, "source-s", false},
		{"messages of a sender", `channels: {inboundUserRpm: 20}`, "channel-inbound-user", true},
		{"polls by the day", `connectors: {routes: {c: {throttleRequests: 9, throttlePeriodMs: 86400000}}}`, "connector-c", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rule(t, load(t, map[string]string{"a.yaml": c.file + "\n"}), c.rule).Volatile; got != c.volatile {
				t.Errorf("%s: volatile is %v", c.file, got)
			}
		})
	}
}

func TestFileStore(t *testing.T) {
	file := func(t *testing.T, more string) FileStore {
		t.Helper()
		c := load(t, map[string]string{"a.yaml": fmt.Sprintf("store: {backend: file, file: {path: x/ledger%s}}\n", more)})
		return *c.Store.File
	}
	t.Run("C-91 C-94 what is not said", func(t *testing.T) {
		want := FileStore{Path: "x/ledger", MaxRecords: 10_000, Retention: 24 * time.Hour, StaleLock: "pid-check", OnRulesChange: "migrate"}
		if got := file(t, ""); got != want {
			t.Errorf("%+v", got)
		}
	})
	t.Run("C-98 the retention in milliseconds", func(t *testing.T) {
		if got := file(t, ", retentionMs: 3600000").Retention; got != time.Hour {
			t.Errorf("%v", got)
		}
	})
}
