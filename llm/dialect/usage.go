package dialect

// A Usage is what an answer says that it took, in tokens, the same for every provider.
type Usage struct {
	// Input was read afresh. CacheRead and CacheWrite were read from and written to a cache
	// and are not in Input.
	Input, CacheRead, CacheWrite int64
	// Output was written, reasoning and all.
	Output int64
	// Reasoning is the part of Output that the client does not see, as far as is said.
	Reasoning int64
	// ToolPrompt was read on behalf of the provider's own tools, beside Input.
	ToolPrompt int64
	// Searches is how many searches the provider has made.
	Searches int64
	// HasInput and HasOutput say which side was told at all. What was not told is not zero.
	HasInput, HasOutput bool
}

// Prompt is all input: what OpenAI and Gemini call the prompt.
func (u *Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.ToolPrompt }

// A figure is a number that some provider sends.
type figure uint8

const (
	prompt     figure = iota // all input, cached or not
	input                    // Anthropic: input without what was cached
	output                   // the visible output, and mostly all of it
	total                    // prompt and output
	cacheRead                // from a cache
	cacheWrite               // to a cache
	cacheMiss                // DeepSeek: input without what was cached
	reasoning                // inside of output, or beside it where total says so
	toolPrompt               // Gemini: beside prompt
	searches                 // Anthropic's server tools

	figures
)

// A tally holds the last figures of one answer. Providers send some once, some again with
// every chunk, some in halves: for each the last value counts, a zero never takes the place
// of what was there, and nothing is ever added up.
type tally struct {
	n    [figures]int64
	told [figures]bool
}

func (t *tally) set(f figure, n int64) {
	if n < 0 || n > 1<<50 || n == 0 && t.n[f] > 0 {
		return
	}
	t.n[f], t.told[f] = n, true
}

// names are the figures by the names that providers give them. A name that two dialects use
// for different things is looked up in readAnthropic.
var names = map[string]figure{
	"prompt_tokens": prompt, "input_tokens": prompt, "promptTokenCount": prompt, "prompt_eval_count": prompt,
	"completion_tokens": output, "output_tokens": output, "candidatesTokenCount": output, "eval_count": output,
	"total_tokens": total, "totalTokenCount": total,
	"cached_tokens": cacheRead, "cachedContentTokenCount": cacheRead, "prompt_eval_cached_count": cacheRead, "prompt_cache_hit_tokens": cacheRead,
	"cache_read_input_tokens": cacheRead, "cache_creation_input_tokens": cacheWrite, "cache_write_tokens": cacheWrite,
	"prompt_cache_miss_tokens": cacheMiss,
	"reasoning_tokens":         reasoning, "thoughtsTokenCount": reasoning, "toolUsePromptTokenCount": toolPrompt, "web_search_requests": searches,
}

// nested are the objects in a usage object that hold further figures.
var nested = map[string]bool{"prompt_tokens_details": true, "completion_tokens_details": true, "input_tokens_details": true,
	"output_tokens_details": true, "server_tool_use": true}

// read takes in a usage object. Null changes nothing.
func (t *tally) read(d Name, raw []byte) {
	object(raw, func(m member) bool {
		f, known := names[string(m.name)]
		switch {
		case known:
			if string(m.name) == "input_tokens" && d == Anthropic {
				f = input
			}
			t.set(f, number(m.value))
		case nested[string(m.name)]:
			t.read(d, m.value)
		}
		return true
	})
}

// usage turns the figures into what they mean.
func (t *tally) usage(d Name) (Usage, bool) {
	u := Usage{
		CacheRead: t.n[cacheRead], CacheWrite: t.n[cacheWrite], Output: t.n[output], Reasoning: t.n[reasoning],
		ToolPrompt: t.n[toolPrompt], Searches: t.n[searches],
		HasInput:  t.told[prompt] || t.told[input] || t.told[cacheMiss] || d == Anthropic && t.told[cacheRead],
		HasOutput: t.told[output],
	}
	switch {
	case d == Anthropic: // cached input is beside input
		u.Input = t.n[input]
	case t.told[cacheMiss]:
		u.Input = t.n[cacheMiss]
	default:
		u.Input = max(0, t.n[prompt]-t.n[cacheRead]-t.n[cacheWrite])
	}
	t.outputOf(d, &u)
	return u, u.HasInput || u.HasOutput
}

// outputOf finds output that is not in the figure of that name: xAI and Gemini count
// reasoning beside it, and the total is right in every reading.
func (t *tally) outputOf(d Name, u *Usage) {
	rest := t.n[total] - t.n[prompt] - t.n[toolPrompt]
	switch {
	case d == Gemini && t.told[total] && t.told[prompt]:
		u.Output, u.HasOutput = max(0, rest), true
	case d == Gemini:
		u.Output += t.n[reasoning]
		u.HasOutput = u.HasOutput || t.told[reasoning]
	case d == OpenAI && t.told[total] && t.told[output] && rest > u.Output:
		u.Output = rest
	}
}
