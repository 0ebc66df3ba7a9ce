package llm

import (
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// The kinds of calls that the gateway makes.
const (
	// KindRequest is what a client asks once, on its tenant's account.
	KindRequest = "llm"
	// KindAttempt is a request as it is sent to a provider.
	KindAttempt = "llm-attempt"
)

// The units of calls, beside [sluice.Calls] and [sluice.Tokens].
const (
	InputTokens  sluice.Unit = "input-tokens"
	OutputTokens sluice.Unit = "output-tokens"
	// MicroDollars are millionths of a dollar, or of any other currency that the prices
	// are in.
	MicroDollars sluice.Unit = "microdollars"
)

// A Reserve says how much output is taken before it is known.
type Reserve uint8

const (
	// Requested takes the bound that the request asks for, and what was learned if it
	// asks for none: OpenAI, Azure and Bedrock count so at admission.
	Requested Reserve = iota
	// Learned takes what nine of ten answers did not exceed, or the bound if that is
	// less: Anthropic counts output as it is written.
	Learned
	// NoOutput takes nothing: Gemini counts input alone.
	NoOutput
)

// Accounting is how a provider counts. The weights are thousandths of a token; the zero
// Accounting counts nothing.
//
// The values of [AccountingOf] are those of the providers' pages on rate limits, as of August
// 2026.
type Accounting struct {
	Input, CacheRead, CacheWrite, Output int64
	Reserve                              Reserve
}

// AccountingOf returns how a provider that speaks this dialect counts.
func AccountingOf(d dialect.Name) Accounting {
	const whole = 1000
	switch d {
	case dialect.Anthropic:
		return Accounting{Input: whole, CacheWrite: whole, Output: whole, Reserve: Learned}
	case dialect.Gemini:
		return Accounting{Input: whole, CacheRead: whole, CacheWrite: whole, Reserve: NoOutput}
	}
	return Accounting{Input: whole, CacheRead: whole, CacheWrite: whole, Output: whole, Reserve: Requested}
}

// fair is how tenants are charged, whoever answers: for all that was read and written.
var fair = Accounting{Input: 1000, CacheRead: 1000, CacheWrite: 1000, Output: 1000, Reserve: Learned}

// A Price is what a million tokens cost, in microdollars: 3_000_000 is three dollars.
type Price struct{ Input, CacheRead, CacheWrite, Output int64 }

// An expectation is what a request is likely to use.
type expectation struct {
	input     estimate.Input
	requested int64 // output that was asked for; -1 is no bound
	learned   int64 // output that is likely
	most      int64 // output that the model can write; 0 is not known
}

// output is how many tokens of output are taken in advance.
func (e *expectation) output(r Reserve) int64 {
	n := e.learned
	switch {
	case r == NoOutput:
		return 0
	case r == Requested && e.requested >= 0:
		n = e.requested
	}
	if e.most > 0 {
		n = min(n, e.most)
	}
	return n
}

// reserve is what is taken for a request before it is sent.
func (a *Accounting) reserve(e *expectation, p *Price) sluice.Cost {
	in, out := e.input.Reserve, e.output(a.Reserve)
	input, output := weigh(in, a.Input), weigh(out, a.Output)
	return sluice.Cost{{Unit: sluice.Calls, N: 1}, {Unit: sluice.Tokens, N: sum(input, output)}, {Unit: InputTokens, N: input},
		{Unit: OutputTokens, N: output}, {Unit: MicroDollars, N: p.of(&dialect.Usage{Input: in, Output: out})}}
}

// settle is what a request that used u has cost.
func (a *Accounting) settle(u *dialect.Usage, p *Price) sluice.Cost {
	input := sum(weigh(u.Input+u.ToolPrompt, a.Input), weigh(u.CacheRead, a.CacheRead), weigh(u.CacheWrite, a.CacheWrite))
	output := weigh(u.Output, a.Output)
	return sluice.Cost{{Unit: sluice.Tokens, N: sum(input, output)}, {Unit: InputTokens, N: input},
		{Unit: OutputTokens, N: output}, {Unit: MicroDollars, N: p.of(u)}}
}

// nothing settles what is counted in tokens and money to zero, and leaves the call counted.
func nothing() sluice.Cost {
	return sluice.Cost{{Unit: sluice.Tokens}, {Unit: InputTokens}, {Unit: OutputTokens}, {Unit: MicroDollars}}
}

// undone settles everything to zero.
func undone() sluice.Cost { return append(nothing(), sluice.Amount{Unit: sluice.Calls}) }

// of is what u costs at p, rounded up to a whole microdollar.
func (p *Price) of(u *dialect.Usage) int64 {
	const million = 1_000_000
	total := 0.0
	for _, part := range [...][2]int64{{u.Input + u.ToolPrompt, p.Input}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}, {u.Output, p.Output}} {
		if hi := float64(part[0]) * float64(part[1]); hi < 1<<53 {
			total += hi
		} else {
			return math.MaxInt64 / million
		}
	}
	return int64(math.Ceil(total / million))
}

// weigh is n tokens at a weight of thousandths, rounded up.
func weigh(n, weight int64) int64 {
	if n <= 0 || weight <= 0 {
		return 0
	}
	if n > math.MaxInt64/weight-999 {
		return math.MaxInt64
	}
	return (n*weight + 999) / 1000
}

// sum adds numbers that are not below zero; what is too large is the largest.
func sum(list ...int64) (total int64) {
	for _, n := range list {
		if n > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += n
	}
	return total
}
