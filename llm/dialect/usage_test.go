package dialect

import "testing"

// whole reads an answer in one piece.
func whole(r Route, body string) (Usage, bool) {
	m := r.NewMeter(nil)
	m.ReadWhole([]byte(body))
	return m.Usage()
}

func TestUsage(t *testing.T) {
	chat, responses := Route{Dialect: OpenAI, Operation: Chat}, Route{Dialect: OpenAI, Operation: Responses}
	claude, gemini, ollama := Route{Dialect: Anthropic, Operation: Messages}, Route{Dialect: Gemini, Operation: Generate}, Route{Dialect: Ollama, Operation: OllamaChat}
	both := func(u Usage) Usage { u.HasInput, u.HasOutput = true, true; return u }
	for _, c := range []struct {
		name  string
		route Route
		body  string
		want  Usage
	}{
		{"A-75 OpenAI", chat, `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, both(Usage{Input: 10, Output: 5})},
		{"L-021 OpenAI has the cache in its prompt", chat, `{"usage":{"prompt_tokens":10000,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8000}}}`,
			both(Usage{Input: 2000, CacheRead: 8000, Output: 1})},
		{"L-021 Anthropic has it beside", claude, `{"usage":{"input_tokens":2000,"cache_read_input_tokens":8000,"output_tokens":1}}`,
			both(Usage{Input: 2000, CacheRead: 8000, Output: 1})},
		{"OpenAI writes a cache", chat, `{"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20}}}`,
			both(Usage{Input: 50, CacheRead: 30, CacheWrite: 20, Output: 1})},
		{"L-020 responses", responses, `{"usage":{"input_tokens":25,"output_tokens":10,"output_tokens_details":{"reasoning_tokens":4}}}`, both(Usage{Input: 25, Output: 10, Reasoning: 4})},
		{"L-096 xAI counts reasoning beside", chat, `{"usage":{"prompt_tokens":10120,"completion_tokens":1499,"total_tokens":14428,"completion_tokens_details":{"reasoning_tokens":2809}}}`,
			both(Usage{Input: 10120, Output: 4308, Reasoning: 2809})},
		{"L-096 OpenAI counts it inside", chat, `{"usage":{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40,"completion_tokens_details":{"reasoning_tokens":20}}}`,
			both(Usage{Input: 10, Output: 30, Reasoning: 20})},
		{"DeepSeek", chat, `{"usage":{"prompt_tokens":10,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2,"completion_tokens":1}}`, both(Usage{Input: 2, CacheRead: 8, Output: 1})},
		{"Gemini with thoughts", gemini, `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":7,"totalTokenCount":20}}`,
			both(Usage{Input: 10, Output: 10, Reasoning: 7})},
		{"Gemini without a total", gemini, `{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":7}}`,
			both(Usage{Input: 6, CacheRead: 4, Output: 10, Reasoning: 7})},
		{"Gemini's tools", gemini, `{"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":18}}`,
			both(Usage{Input: 10, ToolPrompt: 5, Output: 3})},
		{"Ollama", ollama, `{"done":true,"prompt_eval_count":26,"prompt_eval_cached_count":6,"eval_count":9}`, both(Usage{Input: 20, CacheRead: 6, Output: 9})},
		{"L-118 Ollama without the prompt", ollama, `{"done":true,"eval_count":9}`, Usage{Output: 9, HasOutput: true}},
		{"L-028 zero is a figure", chat, `{"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, both(Usage{})},
		{"L-120 searches", claude, `{"usage":{"input_tokens":1,"output_tokens":2,"server_tool_use":{"web_search_requests":3}}}`, both(Usage{Input: 1, Output: 2, Searches: 3})},
		{"an embedding", Route{Dialect: OpenAI, Operation: Embeddings}, `{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, Usage{Input: 8, HasInput: true}},
		{"the end of a large answer", chat, `…0.1,0.2]}],"x":"\"usage\":{\"prompt_tokens\":1}","usage": {"prompt_tokens":8,"completion_tokens":2}}`, both(Usage{Input: 8, Output: 2})},
		{"null is nothing", chat, `{"usage":{"prompt_tokens":8,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":null}}}`, both(Usage{Input: 8, Output: 2})},
		{"what cannot be", chat, `{"usage":{"prompt_tokens":-8,"completion_tokens":1e30,"total_tokens":"x"}}`, Usage{}},
		{"no usage", chat, `{"choices":[]}`, Usage{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := whole(c.route, c.body)
			if got != c.want || ok != (c.want.HasInput || c.want.HasOutput) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	u := Usage{Input: 18, CacheRead: 8831, CacheWrite: 1, ToolPrompt: 2}
	if u.Prompt() != 8852 {
		t.Errorf("L-097: %d", u.Prompt())
	}
}
