package config

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// Units of a call of a language model, as package llm counts them.
const (
	unitInput  = "input-tokens"
	unitOutput = "output-tokens"
	unitMoney  = "microdollars"
)

// builtIn are the limits of providers if the file names none.
var builtIn = []struct {
	name                string
	rpm, tpm, atOnce    int64
	dialect, standardAt string
}{
	{"openai", 500, 200_000, 20, "openai", "https://api.openai.com/v1"},
	{"anthropic", 300, 150_000, 15, "anthropic", "https://api.anthropic.com/v1"},
	{"ollama", 60, 50_000, 2, "ollama", "http://localhost:11434"},
	{"gemini", 300, 200_000, 15, "gemini", "https://generativelanguage.googleapis.com/v1beta"},
}

// addresses are those of further providers that are known by name.
var addresses = map[string][2]string{
	"groq": {"openai", "https://api.groq.com/openai/v1"}, "mistral": {"openai", "https://api.mistral.ai/v1"},
	"deepseek": {"openai", "https://api.deepseek.com/v1"}, "openrouter": {"openai", "https://openrouter.ai/api/v1"},
	"xai": {"openai", "https://api.x.ai/v1"}, "cerebras": {"openai", "https://api.cerebras.ai/v1"},
}

const (
	otherRPM, otherTPM, otherAtOnce = 60, 100_000, 10 // of a provider that is not built in
)

// llm makes the rules of providers, tenants and budgets.
func (k *compiler) llm() {
	l := k.c.LLM
	if l == nil || !l.Enabled {
		return
	}
	if len(l.Providers) == 0 && l.DefaultPolicy == nil {
		l.Providers, l.DefaultPolicy = builtInProviders()
	}
	var listed []string
	for i := range l.Providers {
		p := &l.Providers[i]
		listed = append(listed, p.Name)
		k.complete(p)
		k.provider(p, &p.LLMPolicy, sluice.Rule{ID: "llm-" + p.Name, GroupBy: limitPer(p.LimitPer),
			Match: sluice.Match{Is: is(KindLLMAttempt, sluice.Provider, []string{p.Name})}})
	}
	if l.DefaultPolicy != nil {
		r := sluice.Rule{ID: "llm:default", Match: sluice.Match{Is: is(KindLLMAttempt)}, GroupBy: []sluice.Dimension{sluice.Provider}}
		if len(listed) > 0 {
			r.Match.Not = map[sluice.Dimension][]string{sluice.Provider: listed}
		}
		k.provider(&l.DefaultPolicy, l.DefaultPolicy, r)
	}
	k.cooldowns()
	k.tenants(l)
	for i := range l.Budgets {
		k.budget(&l.Budgets[i])
	}
	k.models(l, listed)
}

// builtInProviders are those of the file that names none.
func builtInProviders() ([]LLMProvider, *LLMPolicy) {
	policy := func(rpm, tpm, atOnce int64) LLMPolicy {
		return LLMPolicy{RequestsPerMinute: &rpm, TokensPerMinute: &tpm, MaxConcurrentCalls: &atOnce}
	}
	var list []LLMProvider
	for _, b := range builtIn {
		list = append(list, LLMProvider{Name: b.name, LLMPolicy: policy(b.rpm, b.tpm, b.atOnce), StreamUsage: true})
	}
	other := policy(otherRPM, otherTPM, otherAtOnce)
	return list, &other
}

// complete fills in what is known of a provider by its name.
func (k *compiler) complete(p *LLMProvider) {
	dialect, at := "openai", ""
	for _, b := range builtIn {
		if b.name == p.Name {
			dialect, at = b.dialect, b.standardAt
		}
	}
	if a, ok := addresses[p.Name]; ok {
		dialect, at = a[0], a[1]
	}
	if p.Dialect == "" {
		p.Dialect = dialect
	}
	if p.BaseURL == "" {
		p.BaseURL = at
	}
	if p.BaseURL == "" && k.c.Listen.LLM != "" {
		k.problem(p, CodeRequired, "the provider %q is not known by name; say where it is with baseUrl", p.Name)
	}
}

func limitPer(names []string) []sluice.Dimension {
	var by []sluice.Dimension
	for _, n := range names {
		d, _ := sluice.ParseDimension(n) // one of an enumeration
		by = append(by, d)
	}
	return by
}

// provider adds the limits of p to r. A call waits for all of them under one deadline, and
// the tokens that it took too many come back when it is settled. What others have used of
// the same account is taken from them as well.
func (k *compiler) provider(at any, p *LLMPolicy, r sluice.Rule) {
	r.Limits = k.llmLimits(p)
	if len(r.Limits) == 0 {
		k.problem(at, WarnMissing, "has no limit, so it is unlimited")
		return
	}
	r.Queue = k.llmQueue()
	k.add(at, surviving(r, nil))
}

// llmQueue is the line in which calls wait for a provider or a tenant's turn.
func (k *compiler) llmQueue() *sluice.Queue {
	l := k.c.LLM
	q := &sluice.Queue{Timeout: k.milliseconds(&l.QueueTimeoutMs, l.QueueTimeoutMs), Shares: shares(l.Shares)}
	if d := l.MaxQueueDepth; d != nil {
		depth := int(min(*d, math.MaxInt32))
		q.Depth = &depth
	}
	if l.FairBy != "" {
		by, _ := sluice.ParseDimension(l.FairBy) // checked by its format
		q.FairBy = &by
	} else if len(l.Shares) > 0 {
		k.problem(&l.Shares, CodeConflict, "shares need fairBy: it says whose they are")
	}
	return q
}

// anyMinute is longer than a provider's minute: what is taken here comes to it later, and not
// all equally late.
const anyMinute = limit.Minute + 500*limit.Millisecond

// llmLimits are the limits that a policy has.
func (k *compiler) llmLimits(p *LLMPolicy) (list limits) {
	add := func(field any, n *int64, l func(int64) limit.Limit, name, unit string) {
		if n == nil {
			return
		}
		if l, ok := k.limit(field, l(*n), unit); ok {
			l.Name = name
			list = append(list, l)
		}
	}
	perMinute := func(n int64) limit.Limit { return limit.Bucket(n, limit.Minute, n) }
	perDay := func(n int64) limit.Limit { return limit.Window(n, limit.Day) }
	if p.AnyMinute {
		perMinute = func(n int64) limit.Limit { return limit.Window(n, anyMinute) }
	}
	rpm := perMinute
	if p.RequestsBurst != nil && p.AnyMinute {
		k.problem(&p.RequestsBurst, CodeConflict, "a burst is of a bucket; with anyMinute the limits are windows")
	} else if p.RequestsBurst != nil {
		rpm = func(n int64) limit.Limit { return limit.Bucket(n, limit.Minute, *p.RequestsBurst) }
		if p.RequestsPerMinute == nil {
			k.problem(&p.RequestsBurst, CodeConflict, "a burst needs requestsPerMinute; without it nothing comes back")
		}
	}
	add(&p.RequestsPerMinute, p.RequestsPerMinute, rpm, "rpm", "")
	add(&p.RequestsPerDay, p.RequestsPerDay, perDay, "rpd", "")
	add(&p.TokensPerMinute, p.TokensPerMinute, perMinute, "tpm", string(sluice.Tokens))
	add(&p.InputTokensPerMinute, p.InputTokensPerMinute, perMinute, "itpm", unitInput)
	add(&p.OutputTokensPerMinute, p.OutputTokensPerMinute, perMinute, "otpm", unitOutput)
	add(&p.TokensPerDay, p.TokensPerDay, perDay, "tpd", string(sluice.Tokens))
	list.add(k.slots(&p.MaxConcurrentCalls, p.MaxConcurrentCalls))
	return list
}

// cooldowns makes the rules by which attempts are kept from what a provider has asked to be
// left alone. They are those of llm.Cooldowns.
func (k *compiler) cooldowns() {
	for _, c := range []struct {
		scope string
		group []sluice.Dimension
	}{
		{"model", []sluice.Dimension{sluice.Provider, sluice.Model, sluice.Credential}},
		{"credential", []sluice.Dimension{sluice.Provider, sluice.Credential}},
		{"provider", []sluice.Dimension{sluice.Provider}},
	} {
		id := "llm-cooldown-" + c.scope
		k.add(&k.c.LLM, sluice.Rule{ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {KindLLMAttempt, id}}}, GroupBy: c.group,
			Limits: limits{{Limit: limit.Cooldown(longestLLMCooldown)}}, Queue: &sluice.Queue{}})
	}
}

// longestLLMCooldown is how long a provider can have itself left alone: a day's quota comes
// back within it.
const longestLLMCooldown = 25 * limit.Hour

// tenants makes the rules of what each tenant may take.
func (k *compiler) tenants(l *LLM) {
	var listed []string
	for i := range l.Tiers {
		t := &l.Tiers[i]
		listed = append(listed, t.Name)
		k.tenantRule(t, &t.LLMPolicy, sluice.Rule{ID: "llm-tenant:" + t.Name, Match: sluice.Match{Is: is(KindLLM, sluice.Tier, []string{t.Name})}})
	}
	if l.Tenants == nil {
		return
	}
	r := sluice.Rule{ID: "llm-tenant", Match: sluice.Match{Is: is(KindLLM)}}
	if len(listed) > 0 {
		r.Match.Not = map[sluice.Dimension][]string{sluice.Tier: listed}
	}
	k.tenantRule(&l.Tenants, l.Tenants, r)
}

func (k *compiler) tenantRule(at any, p *LLMPolicy, r sluice.Rule) {
	r.Limits, r.GroupBy = k.llmLimits(p), []sluice.Dimension{sluice.Tenant}
	if len(r.Limits) == 0 {
		k.problem(at, WarnMissing, "has no limit, so it is unlimited")
		return
	}
	r.Queue = k.llmQueue()
	r.Queue.FairBy, r.Queue.Shares = nil, nil // each tenant has a line of its own
	k.add(at, surviving(r, nil))
}

// budget makes a rule of one budget. It counts calendar periods, and a settlement belongs to
// the period of its request.
func (k *compiler) budget(b *LLMBudget) {
	every := map[string]sluice.Period{"day": sluice.Daily, "week": sluice.Weekly, "month": sluice.Monthly}[b.Per]
	in, err := time.LoadLocation(b.TimeZone)
	if err != nil {
		return // its format has said so
	}
	r := sluice.Rule{ID: "llm-budget-" + b.ID, Match: match(&b.Match), Calendar: &sluice.Calendar{Every: every, In: in}}
	if r.Match.Is == nil {
		r.Match.Is = map[sluice.Dimension][]string{}
	}
	r.Match.Is[sluice.Kind] = []string{KindLLM}
	for _, name := range b.GroupBy {
		d, _ := sluice.ParseDimension(name) // checked by its format
		r.GroupBy = append(r.GroupBy, d)
	}
	add := func(field any, n int64, name, unit string) {
		if l, ok := k.limit(field, limit.Window(n, limit.Day), unit); ok {
			l.Name = name
			r.Limits = append(r.Limits, l)
		}
	}
	if b.Money != nil {
		add(&b.Money, int64(math.Round(*b.Money*1e6)), "money", unitMoney)
	}
	if b.Tokens != nil {
		add(&b.Tokens, *b.Tokens, "tokens", string(sluice.Tokens))
	}
	if b.Requests != nil {
		add(&b.Requests, *b.Requests, "requests", "")
	}
	if len(r.Limits) == 0 {
		k.problem(b, CodeRequired, "a budget is of money, tokens or requests")
		return
	}
	k.add(b, surviving(r, nil))
}

// models checks that every target is there.
func (k *compiler) models(l *LLM, listed []string) {
	for i := range l.Models {
		m := &l.Models[i]
		for j := range m.Targets {
			t := &m.Targets[j]
			if !slices.Contains(listed, t.Provider) {
				k.problem(&t.Provider, CodeReference, "there is no provider %q; there are %s", t.Provider, fmt.Sprint(listed))
			}
		}
	}
}
