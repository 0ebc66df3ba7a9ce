package llmtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/llm/dialect"
)

// A reply is an answer to one request.
type reply struct {
	q             *Request
	plan          Plan
	input, output int64
	text          string
	called        bool // the tool, in Gemini's stream
}

func newReply(q *Request, plan Plan) *reply {
	a := &reply{q: q, plan: plan, input: plan.Input, output: plan.Output}
	if a.input == 0 {
		a.input = count(q.Request)
	}
	if a.output == 0 {
		a.output = 16
	}
	if q.Request.Output >= 0 { // no more than was asked for
		a.output = min(a.output, q.Request.Output)
	}
	a.input, a.output = max(0, a.input), max(0, a.output)
	a.text = cmp.Or(plan.Text, words(a.output-plan.Reasoning))
	return a
}

// count is what the provider counts of a request's input: a token for each word, or for four
// characters if that is more. It is meant to differ from any estimate.
func count(q *dialect.Request) (n int64) {
	for i := range q.Parts {
		switch p := &q.Parts[i]; p.Kind {
		case dialect.Text, dialect.JSON:
			n += max(int64(len(strings.Fields(string(p.Raw)))), int64(len(p.Raw)+3)/4)
		case dialect.Turn:
			n += 3
		case dialect.IDs:
			n += p.N
		default:
			n += 1000
		}
	}
	return max(1, n)
}

// usage is the usage object of the dialect, or null.
func (a *reply) usage() string {
	in, out, cached, thought := a.input, a.output, a.plan.CacheRead, a.plan.Reasoning
	if a.plan.ZeroUsage {
		in, out, cached, thought = 0, 0, 0, 0
	}
	switch {
	case a.plan.NoUsage:
		return "null"
	case a.q.Route.Dialect == dialect.Anthropic:
		return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,"output_tokens":%d}`, in-cached, cached, out)
	case a.q.Route.Dialect == dialect.Gemini:
		return fmt.Sprintf(`{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"totalTokenCount":%d}`,
			in, cached, out-thought, thought, in+out)
	case a.q.Route.Operation == dialect.Responses:
		return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
			in, cached, out, thought, in+out)
	}
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		in, out, in+out, cached, thought)
}

// whole is the answer in one piece.
func (a *reply) whole() []byte {
	if a.plan.Body != "" {
		return []byte(a.plan.Body)
	}
	model, text := quote(a.q.Model), quote(a.text)
	var s string
	switch a.q.Route.Operation {
	case dialect.Chat:
		message, reason := `{"role":"assistant","content":`+text+`,"refusal":null}`, "stop"
		if a.plan.Tool {
			message, reason = `{"role":"assistant","content":null,"refusal":null,"tool_calls":[`+toolCall+`]}`, "tool_calls"
		}
		s = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":` + model + `,"choices":[{"index":0,"message":` + message +
			`,"logprobs":null,"finish_reason":"` + reason + `"}],"usage":` + a.usage() + `}`
	case dialect.Completions:
		s = `{"id":"cmpl-1","object":"text_completion","created":1,"model":` + model + `,"choices":[{"index":0,"text":` + text +
			`,"logprobs":null,"finish_reason":"stop"}],"usage":` + a.usage() + `}`
	case dialect.Responses:
		s = a.response("completed", true)
	case dialect.Embeddings:
		s = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25,-0.5]}],"model":` + model +
			fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, a.input, a.input)
	case dialect.Messages:
		content, reason := `{"type":"text","text":`+text+`}`, "end_turn"
		if a.plan.Tool {
			content, reason = `{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Paris"}}`, "tool_use"
		}
		s = `{"id":"msg_1","type":"message","role":"assistant","model":` + model + `,"content":[` + content + `],"stop_reason":"` + reason +
			`","stop_sequence":null,"usage":` + a.usage() + `}`
	case dialect.Generate, dialect.StreamGenerate:
		part := a.part(a.text)
		s = a.candidate(part, `,"finishReason":"STOP"`, a.usage())
	case dialect.EmbedContent:
		s = `{"embedding":{"values":[0.25,-0.5]}}`
	case dialect.OllamaEmbed:
		s = `{"model":` + model + `,"embeddings":[[0.25,-0.5]],"prompt_eval_count":` + fmt.Sprint(a.input) + `}`
	default:
		s = a.line(a.text, true)
	}
	return []byte(s)
}

const toolCall = `{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}`

// response is OpenAI's response object.
func (a *reply) response(status string, full bool) string {
	output, usage := "[]", "null"
	if full {
		output = `[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + quote(a.text) + `,"annotations":[]}]}]`
		usage = a.usage()
	}
	return `{"id":"resp_1","object":"response","created_at":1,"status":"` + status + `","error":null,"incomplete_details":null,"instructions":null,"model":` +
		quote(a.q.Model) + `,"output":` + output + `,"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":` + usage + `}`
}

// part is a part of Gemini's content: a text, or the call of a tool, which comes once.
func (a *reply) part(text string) string {
	if !a.plan.Tool {
		return `{"text":` + quote(text) + `}`
	}
	if a.called {
		return `{"text":""}`
	}
	a.called = true
	return `{"functionCall":{"name":"weather","args":{"city":"Paris"}}}`
}

// candidate is an answer of Gemini, or a piece of one.
func (a *reply) candidate(part, end, usage string) string {
	return `{"candidates":[{"index":0,"content":{"role":"model","parts":[` + part + `]}` + end + `}],"usageMetadata":` + usage +
		`,"modelVersion":` + quote(a.q.Model) + `}`
}

// line is a line of Ollama.
func (a *reply) line(text string, done bool) string {
	said := `"message":{"role":"assistant","content":` + quote(text) + `}`
	if a.q.Route.Operation == dialect.OllamaGenerate {
		said = `"response":` + quote(text)
	}
	s := `{"model":` + quote(a.q.Model) + `,"created_at":"2026-01-01T00:00:00Z",` + said
	switch {
	case !done:
		return s + `,"done":false}`
	case a.plan.NoUsage:
		return s + `,"done":true,"done_reason":"stop"}`
	}
	return s + fmt.Sprintf(`,"done":true,"done_reason":"stop","prompt_eval_count":%d,"eval_count":%d}`, a.input, a.output)
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string can always be written
	return string(b)
}
