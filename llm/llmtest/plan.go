// Package llmtest is a provider of language models for tests: it speaks every dialect, answers
// what it is told to, and fails as it is told to: with errors of every kind, late, in pieces,
// in the middle of a stream, with wrong figures or none. It counts what it has served by
// itself, so that a limit in front of it can be checked.
//
//	mock := llmtest.New(llmtest.Options{})
//	server := httptest.NewServer(mock)
//	…
//	client := openai.NewClient(option.WithBaseURL(server.URL + "/v1"))
//	client.Chat.Completions.New(ctx, …{Model: "mock:output=100,chunks=64,between=5ms"})
//
// What happens is decided by [Options.Plan], or by the model's name ([ParsePlan]), so that
// clients in any language can ask for it.
package llmtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Plan is what happens to one request. The zero Plan is an answer of 16 tokens at once.
type Plan struct {
	// Status answers with an error of the dialect, unless it is 0 or 200. RetryAfter is
	// sent with it, and Code is its word, such as "insufficient_quota".
	Status     int
	RetryAfter time.Duration
	Code       string
	// Body is sent in place of the dialect's own, of an error or of an answer in one piece.
	Body string

	// Input and Output are the tokens that are counted. Zero is what the request comes to,
	// and 16; a negative number is none.
	Input, Output int64
	// CacheRead is how many of Input come from a cache, Reasoning how many of Output are
	// not seen.
	CacheRead, Reasoning int64
	// Text is what is said. Empty is as many words as Output says.
	Text string
	// Tool answers with the call of a tool.
	Tool bool
	// NoUsage leaves out what was used; ZeroUsage says that it was nothing.
	NoUsage, ZeroUsage bool

	// Latency passes before the header, Between between two pieces of a stream.
	Latency, Between time.Duration
	// Chunks is how many pieces the text of a stream is cut into. Zero is 4.
	Chunks int
	// Bytes cuts what is written into pieces of so many bytes, each sent by itself.
	Bytes int
	// Long makes one piece of the stream so many bytes long.
	Long int
	// FailAt breaks a stream off with an error of the dialect before the piece of that
	// number, counted from 1; 1 is before any content. CutAt closes the connection there.
	// Code says which error it is; empty is an overload.
	FailAt, CutAt int
	// Silent ends a stream where CutAt says as if it were whole.
	Silent bool
	// Hang never answers.
	Hang bool
}

// planPrefix begins the name of a model that is a plan.
const planPrefix = "mock:"

// ParsePlan reads a plan that is written as the name of a model: "mock:" and pairs such as
// "output=100,chunks=64,between=5ms,status=429,retry-after=2s,fail-at=1,code=rate_limit_exceeded".
// The names are those of Plan's fields, in lower case with hyphens. Any other model is the
// zero Plan.
func ParsePlan(model string) (Plan, error) {
	var p Plan
	rest, ok := strings.CutPrefix(model, planPrefix)
	if !ok {
		return p, nil
	}
	for pair := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(pair, "=")
		if name == "" {
			continue
		}
		if err := p.set(name, value); err != nil {
			return p, fmt.Errorf("llmtest: the plan %q: %s: %w", model, name, err)
		}
	}
	return p, nil
}

// set sets one field by its name.
func (p *Plan) set(name, value string) (err error) {
	counts := map[string]*int{"status": &p.Status, "chunks": &p.Chunks, "bytes": &p.Bytes, "long": &p.Long, "fail-at": &p.FailAt, "cut-at": &p.CutAt}
	tokens := map[string]*int64{"input": &p.Input, "output": &p.Output, "cache-read": &p.CacheRead, "reasoning": &p.Reasoning}
	times := map[string]*time.Duration{"retry-after": &p.RetryAfter, "latency": &p.Latency, "between": &p.Between}
	flags := map[string]*bool{"tool": &p.Tool, "no-usage": &p.NoUsage, "zero-usage": &p.ZeroUsage, "silent": &p.Silent, "hang": &p.Hang}
	texts := map[string]*string{"code": &p.Code, "text": &p.Text}
	switch {
	case counts[name] != nil:
		*counts[name], err = strconv.Atoi(value)
	case tokens[name] != nil:
		*tokens[name], err = strconv.ParseInt(value, 10, 64)
	case times[name] != nil:
		*times[name], err = time.ParseDuration(value)
	case flags[name] != nil:
		*flags[name] = value == "" || value == "true"
	case texts[name] != nil:
		*texts[name] = value
	default:
		return fmt.Errorf("there is no such field")
	}
	return err
}

// words returns a text of n words.
func words(n int64) string {
	const some = "the quick brown fox jumps over a lazy dog and runs away from "
	list := strings.Fields(some)
	var b strings.Builder
	for i := range max(0, min(n, 1<<20)) {
		b.WriteString(list[int(i)%len(list)])
		b.WriteByte(' ')
	}
	return b.String()
}
