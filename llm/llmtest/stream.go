package llmtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/llm/dialect"
)

func (a *reply) contentType() string {
	switch {
	case a.q.Route.Dialect == dialect.Ollama:
		return "application/x-ndjson"
	case a.q.Route.Array:
		return "application/json"
	}
	return "text/event-stream"
}

// cut cuts the text into the pieces of a stream.
func (a *reply) cut() []string {
	n := a.plan.Chunks
	if n <= 0 {
		n = 4
	}
	var list []string
	for i := range n {
		list = append(list, a.text[len(a.text)*i/n:len(a.text)*(i+1)/n])
	}
	if a.plan.Long > 0 {
		list[n-1] = strings.Repeat("x", a.plan.Long)
	}
	return list
}

// pieces is a stream: what comes before its content, the content, and what ends it.
func (a *reply) pieces() (before []byte, content [][]byte, after []byte) {
	var first, last string
	var each func(text string) string
	switch a.q.Route.Operation {
	case dialect.Chat:
		first, each, last = a.chat()
	case dialect.Completions:
		each = func(s string) string {
			return event("", `{"id":"cmpl-1","object":"text_completion","created":1,"model":`+quote(a.q.Model)+`,"choices":[{"index":0,"text":`+quote(s)+`,"finish_reason":null}]}`)
		}
		last = a.askedUsage(`{"id":"cmpl-1","object":"text_completion","created":1,"model":`+quote(a.q.Model)) + event("", "[DONE]")
	case dialect.Responses:
		first, each, last = a.responses()
	case dialect.Messages:
		first, each, last = a.messages()
	case dialect.StreamGenerate:
		first, each, last = a.gemini()
	default:
		each = func(s string) string { return a.line(s, false) + "\n" }
		last = a.line("", true) + "\n"
	}
	for _, s := range a.cut() {
		content = append(content, []byte(each(s)))
	}
	return []byte(first), content, []byte(last)
}

// askedUsage is OpenAI's event with the usage, if the client has asked for it.
func (a *reply) askedUsage(head string) string {
	if !a.q.AskedUsage || a.plan.NoUsage {
		return ""
	}
	return event("", head+`,"choices":[],"usage":`+a.usage()+`}`)
}

func (a *reply) chat() (first string, each func(string) string, last string) {
	head := `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":` + quote(a.q.Model)
	chunk := func(delta, reason string) string {
		return event("", head+`,"choices":[{"index":0,"delta":`+delta+`,"logprobs":null,"finish_reason":`+reason+`}]}`)
	}
	reason := `"stop"`
	each = func(s string) string { return chunk(`{"content":`+quote(s)+`}`, "null") }
	if a.plan.Tool {
		call := `{"tool_calls":[` + toolCall + `]}`
		reason = `"tool_calls"`
		each = func(string) string {
			s := chunk(call, "null")
			call = `{}`
			return s
		}
	}
	return chunk(`{"role":"assistant","content":""}`, "null"), each, chunk(`{}`, reason) + a.askedUsage(head) + event("", "[DONE]")
}

func (a *reply) responses() (first string, each func(string) string, last string) {
	n := 0
	numbered := func(kind, rest string) string {
		n++
		return event(kind, fmt.Sprintf(`{"type":%q,"sequence_number":%d%s}`, kind, n-1, rest))
	}
	first = numbered("response.created", `,"response":`+a.response("in_progress", false)) +
		numbered("response.in_progress", `,"response":`+a.response("in_progress", false))
	each = func(s string) string {
		return numbered("response.output_text.delta", `,"item_id":"msg_1","output_index":0,"content_index":0,"logprobs":[],"delta":`+quote(s))
	}
	last = event("response.completed", fmt.Sprintf(`{"type":"response.completed","sequence_number":%d,"response":%s}`, 1000, a.response("completed", true)))
	return first, each, last
}

func (a *reply) messages() (first string, each func(string) string, last string) {
	start := strings.Replace(a.usage(), fmt.Sprintf(`"output_tokens":%d`, a.output), `"output_tokens":1`, 1)
	first = event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":`+quote(a.q.Model)+
		`,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`+start+`}}`) + event("ping", `{"type":"ping"}`)
	block, delta, reason := `{"type":"text","text":""}`, func(s string) string { return `{"type":"text_delta","text":` + quote(s) + `}` }, "end_turn"
	if a.plan.Tool {
		block, reason = `{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}`, "tool_use"
		rest := `{"city":"Paris"}`
		delta = func(string) string {
			s := rest
			rest = ""
			return `{"type":"input_json_delta","partial_json":` + quote(s) + `}`
		}
	}
	begun := false
	each = func(s string) string {
		opening := ""
		if !begun {
			begun, opening = true, event("content_block_start", `{"type":"content_block_start","index":0,"content_block":`+block+`}`)
		}
		return opening + event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":`+delta(s)+`}`)
	}
	last = event("content_block_stop", `{"type":"content_block_stop","index":0}`) +
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":`+a.usage()+`}`) +
		event("message_stop", `{"type":"message_stop"}`)
	return first, each, last
}

func (a *reply) gemini() (first string, each func(string) string, last string) {
	if !a.q.Route.Array {
		return "", func(s string) string { return event("", a.candidate(a.part(s), "", a.usage())) }, event("", a.candidate(`{"text":""}`, `,"finishReason":"STOP"`, a.usage()))
	}
	return "[", func(s string) string { return a.candidate(a.part(s), "", a.usage()) + "\n," }, a.candidate(`{"text":""}`, `,"finishReason":"STOP"`, a.usage()) + "]"
}

// failure is the error with which a stream breaks off.
func (a *reply) failure() []byte {
	f := dialect.Fault{Status: http.StatusServiceUnavailable, Code: a.plan.Code, Message: "Overloaded"}
	switch a.plan.Code {
	case "rate_limit_exceeded", "rate_limit_error", "insufficient_quota":
		f.Status, f.Dimension = http.StatusTooManyRequests, "tokens"
	}
	if a.q.Route.Dialect == dialect.OpenAI && a.q.Route.Operation != dialect.Responses {
		return []byte(event("", strings.TrimSpace(string(errorBody(dialect.OpenAI, f)))))
	}
	return a.q.Route.StreamFault(f)
}

// event is one server-sent event.
func event(name, data string) string {
	if name != "" {
		name = "event: " + name + "\n"
	}
	return name + "data: " + data + "\n\n"
}
