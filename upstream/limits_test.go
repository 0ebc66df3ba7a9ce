package upstream_test

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/upstream"
)

func TestStandings(t *testing.T) {
	for _, c := range []struct {
		name string
		in   header
		want []upstream.Standing
	}{
		{"nothing", header{"Content-Type": "x"}, nil},
		{"OpenAI", header{
			"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "499", "x-ratelimit-reset-requests": "120ms",
			"x-ratelimit-limit-tokens": "200000", "x-ratelimit-remaining-tokens": "199000", "x-ratelimit-reset-tokens": "6m0s",
		}, []upstream.Standing{
			{Dimension: "requests", Limit: 500, Remaining: 499, Reset: 120 * time.Millisecond, HasReset: true},
			{Dimension: "tokens", Limit: 200000, Remaining: 199000, Reset: 6 * time.Minute, HasReset: true},
		}},
		{"Anthropic", header{
			"anthropic-ratelimit-input-tokens-limit": "30000", "anthropic-ratelimit-input-tokens-remaining": "0",
			"anthropic-ratelimit-input-tokens-reset": "2026-08-22T10:00:05Z", "anthropic-ratelimit-unified-status": "allowed",
			"anthropic-priority-output-tokens-limit": "7",
		}, []upstream.Standing{
			{Dimension: "input-tokens", Limit: 30000, Remaining: 0, Reset: 5 * time.Second, HasReset: true},
			{Dimension: "priority-output-tokens", Limit: 7, Remaining: -1},
		}},
		{"Cerebras names periods", header{"x-ratelimit-reset-requests-day": "33011.38", "x-ratelimit-remaining-requests-day": "9", "x-ratelimit-reset-tokens-minute": "1.5"},
			[]upstream.Standing{
				{Dimension: "requests", Per: 24 * time.Hour, Limit: -1, Remaining: 9, Reset: 33011380 * time.Millisecond, HasReset: true},
				{Dimension: "tokens", Per: time.Minute, Limit: -1, Remaining: -1, Reset: 1500 * time.Millisecond, HasReset: true},
			}},
		{"Mistral", header{"x-ratelimit-limit-tokens-minute": "500000", "x-ratelimit-remaining-req-minute": "5", "x-ratelimit-tokens-query-cost": "9"},
			[]upstream.Standing{
				{Dimension: "requests", Per: time.Minute, Limit: -1, Remaining: 5},
				{Dimension: "tokens", Per: time.Minute, Limit: 500000, Remaining: -1},
			}},
		{"OpenRouter in milliseconds since 1970", header{"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1787392805000"},
			[]upstream.Standing{{Dimension: "requests", Limit: 20, Remaining: 0, Reset: 5 * time.Second, HasReset: true}}},
		{"L-049 Azure's odd field, and -1", header{"x-rate-limit-reset-tokens": "17", "x-ratelimit-remaining-tokens": "-1"},
			[]upstream.Standing{{Dimension: "tokens", Limit: -1, Remaining: -1, Reset: 17 * time.Second, HasReset: true}}},
		{"the draft", header{"RateLimit": `"default";r=50;t=30`, "RateLimit-Policy": `"default";q=100;w=60`},
			[]upstream.Standing{{Dimension: "default", Per: time.Minute, Limit: 100, Remaining: 50, Reset: 30 * time.Second, HasReset: true}}},
		{"what cannot be read", header{"RateLimit": `"default;r=`, "x-ratelimit-limit-tokens": "many", "x-ratelimit-reset-tokens": "soon"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range c.in {
				h.Set(k, v)
			}
			if got := upstream.Standings(h, now); !slices.Equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestStandingsAreBounded(t *testing.T) {
	h := http.Header{}
	for i := range 1000 {
		h.Set("X-Ratelimit-Limit-A"+strconv.Itoa(i), "1")
	}
	if n := len(upstream.Standings(h, now)); n > 32 {
		t.Errorf("%d limits of one answer", n)
	}
}

func TestExhausted(t *testing.T) {
	for _, c := range []struct {
		name string
		in   upstream.Standing
		want bool
	}{
		{"nothing left", upstream.Standing{Limit: 10, Remaining: 0}, true},
		{"something left", upstream.Standing{Limit: 10, Remaining: 1}, false},
		{"L-049 not said", upstream.Standing{Limit: 10, Remaining: -1}, false},
		{"L-049 zero of nothing", upstream.Standing{Limit: 0, Remaining: 0}, false},
		{"nothing left until a time", upstream.Standing{Limit: -1, Remaining: 0, HasReset: true}, true},
	} {
		if c.in.Exhausted() != c.want {
			t.Errorf("%s: %v", c.name, !c.want)
		}
	}
}
