package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		method, path, query string
		want                Route
	}{
		{"POST", "/v1/chat/completions", "", Route{Dialect: OpenAI, Operation: Chat, Known: true}},
		{"POST", "/openai/v1/chat/completions", "", Route{Dialect: OpenAI, Operation: Chat, Known: true}},
		{"POST", "/api/v1/chat/completions", "", Route{Dialect: OpenAI, Operation: Chat, Known: true}},
		{"POST", "/openai/deployments/gpt-4o/chat/completions", "api-version=2024-10-21", Route{Dialect: OpenAI, Operation: Chat, Model: "gpt-4o", Known: true}},
		{"POST", "/v1/completions", "", Route{Dialect: OpenAI, Operation: Completions, Known: true}},
		{"POST", "/v1/responses", "", Route{Dialect: OpenAI, Operation: Responses, Known: true}},
		{"POST", "/v1/embeddings", "", Route{Dialect: OpenAI, Operation: Embeddings, Known: true}},
		{"POST", "/v1/messages", "", Route{Dialect: Anthropic, Operation: Messages, Known: true}},
		{"POST", "/v1/messages/count_tokens", "", Route{Dialect: Anthropic, Operation: CountTokens, Known: true}},
		{"POST", "/v1beta/models/gemini-2.5-pro:generateContent", "", Route{Dialect: Gemini, Operation: Generate, Model: "gemini-2.5-pro", Known: true}},
		{"POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent", "alt=sse", Route{Dialect: Gemini, Operation: StreamGenerate, Model: "gemini-2.5-pro", Known: true}},
		{"POST", "/v1beta/models/g:streamGenerateContent", "key=x", Route{Dialect: Gemini, Operation: StreamGenerate, Model: "g", Known: true, Array: true}},
		{"POST", "/v1/projects/p/locations/l/publishers/google/models/g:generateContent", "", Route{Dialect: Gemini, Operation: Generate, Model: "g", Known: true}},
		{"POST", "/api/chat", "", Route{Dialect: Ollama, Operation: OllamaChat, Known: true}},
		{"POST", "/api/generate", "", Route{Dialect: Ollama, Operation: OllamaGenerate, Known: true}},
		{"GET", "/v1/models", "", Route{Dialect: OpenAI, Known: true}},
		{"L-144 GET", "/v1/models/gpt-4o", "", Route{Dialect: OpenAI}},
		{"GET", "/v1/chat/completions", "", Route{Dialect: OpenAI, Known: true}},
		{"POST", "/v1/files", "", Route{Dialect: OpenAI}},
		{"POST", "/v1beta/cachedContents", "", Route{Dialect: Gemini}},
		{"POST", "/v1beta/models/:generateContent", "", Route{Dialect: Gemini}},
		{"POST", "/api/pull", "", Route{Dialect: Ollama}},
		{"POST", "//v1//chat/completions/", "", Route{Dialect: OpenAI, Operation: Chat, Known: true}},
		{"POST", "/V1/Chat/Completions", "", Route{Dialect: OpenAI, Operation: Chat, Known: true}},
		{"POST", "/v1/chat;a=b/completions;c", "", Route{Dialect: OpenAI, Operation: Chat, Known: true}},
		{"POST", "/v1beta/models/g:generateContent/", "", Route{Dialect: Gemini, Operation: Generate, Model: "g", Known: true}},
	} {
		if got := Find(c.method, c.path, c.query); got != c.want {
			t.Errorf("%s %s?%s: %+v, want %+v", c.method, c.path, c.query, got, c.want)
		}
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct{ path, model, want string }{
		{"/v1/chat/completions", "m", "/chat/completions"},
		{"/V1//Chat/Completions/;x", "m", "/chat/completions"},
		{"/openai/deployments/d/chat/completions", "m", "/chat/completions"},
		{"/v1beta/models/g:generateContent", "a/b?c", "/models/a%2Fb%3Fc:generateContent"},
		{"/v1/models/a b", "", "/models/a%20b"},
		{"/v1/models/%2e%2e/x", "", "/models/%252e%252e/x"},
		{"/v1/models/a?key=b#c", "", "/models/a%3Fkey=b%23c"},
		{"/api/tags", "", "/api/tags"},
	} {
		if got := Find("POST", c.path, "").Tail(c.path, c.model); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
}

func TestSane(t *testing.T) {
	for path, want := range map[string]bool{"/v1/models": true, "/v1/models/a..b": true, "/v1//x/": true, "/v1/../admin": false, "/v1/./x": false,
		"/v1/..;/admin": false, `/v1/..\admin`: false, "/..": false} {
		if Sane(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// show writes a request's parts down, a word each.
func show(q *Request) string {
	var b strings.Builder
	for _, p := range q.Parts {
		switch p.Kind {
		case Text:
			fmt.Fprintf(&b, "%q ", p.Raw)
		case JSON:
			fmt.Fprintf(&b, "json:%s ", p.Raw)
		case Image:
			fmt.Fprintf(&b, "image:%d%s ", p.N, p.Detail)
		case Audio:
			fmt.Fprintf(&b, "audio:%d ", p.N)
		case File:
			fmt.Fprintf(&b, "file:%d ", p.N)
		case IDs:
			fmt.Fprintf(&b, "ids:%d ", p.N)
		case Turn:
			b.WriteString("turn ")
		}
	}
	return strings.TrimSpace(b.String())
}

func TestRead(t *testing.T) {
	chat := Route{Dialect: OpenAI, Operation: Chat}
	responses := Route{Dialect: OpenAI, Operation: Responses}
	messages := Route{Dialect: Anthropic, Operation: Messages}
	gemini := Route{Dialect: Gemini, Operation: Generate, Model: "g"}
	ollama := Route{Dialect: Ollama, Operation: OllamaChat}
	complete := Route{Dialect: OpenAI, Operation: Completions}
	embed := Route{Dialect: OpenAI, Operation: Embeddings}
	for _, c := range []struct {
		name, body string
		route      Route
		model      string
		stream     bool
		output     int64
		hidden     bool
		parts      string
	}{
		{"chat", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true}`, chat, "m", true, 5, false, `turn "hi"`},
		{"the larger of two bounds, times n", `{"max_tokens":5,"max_completion_tokens":7,"n":3}`, chat, "", false, 21, false, ""},
		{"L-130 no bound", `{"model":"m"}`, chat, "m", false, -1, false, ""},
		{"n that overflows", `{"max_tokens":9223372036854775807,"n":1e18}`, chat, "", false, 1<<63 - 1, false, ""},
		{"numbers in quotes", `{"max_tokens":"100","n":"3"}`, chat, "", false, 300, false, ""},
		{"zero and less are no bound", `{"max_tokens":0,"max_completion_tokens":-5}`, chat, "", false, -1, false, ""},
		{"a fraction, an exponent, no number", `{"max_tokens":1e3,"max_completion_tokens":7.9,"n":true}`, chat, "", false, 1000, false, ""},
		{"letters that fold", `{"meſſages":[{"content":"hi"}]}`, chat, "", false, -1, false, `turn "hi"`},
		{"text that is wrapped as data", `{"messages":[{"content":[{"type":"file","file":{"file_data":"data:text/plain,long text"}}]}]}`, chat, "", false, -1, false, `turn "long text"`},
		{"L-125 tools count", `{"tools":[{"type":"function"}],"response_format":{"type":"json_object"}}`, chat, "", false, -1, false,
			`json:[{"type":"function"}] json:{"type":"json_object"}`},
		{"an image by data, by address", `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAA","detail":"low"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`,
			chat, "", false, -1, false, `turn image:6low image:0`},
		{"audio and file", `{"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA","filename":"a"}},{"type":"file","file":{"file_id":"f"}}]}]}`,
			chat, "", false, -1, false, `turn audio:3 "wav" file:3 "a" file:0`},
		{"tool calls are JSON", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"42"}]}`,
			chat, "", false, -1, false, `turn json:[{"id":"1"}] turn "42"`},
		{"text that looks like data is text", `{"messages":[{"content":"data:image/png;base64,AAAA"}]}`, chat, "", false, -1, false, `turn "data:image/png;base64,AAAA"`},
		{"a name in other letters", `{"MODEL":"m","Messages":[{"Content":"hi"}],"Max_Tokens":3}`, chat, "m", false, 3, false, `turn "hi"`},
		{"a name with an escape", `{"m\u006fdel":"m"}`, chat, "m", false, -1, false, ""},
		{"L-004 responses with input", `{"model":"m","input":"text","instructions":"be brief","max_output_tokens":50}`, responses, "m", false, 50, false, `"text" "be brief"`},
		{"L-004 responses that go on", `{"model":"m","previous_response_id":"r","input":[{"role":"user","content":[{"type":"input_text","text":"more"}]}]}`, responses, "m", false, -1, true, `turn "more"`},
		{"anthropic", `{"model":"c","max_tokens":9,"system":[{"type":"text","text":"sys","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`,
			messages, "c", false, 9, false, `"sys" turn "hi"`},
		{"L-124 an image in a tool's result", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAAAAAA"}}]}]}]}`,
			messages, "", false, -1, false, `turn image:6`},
		{"a tool's use", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"a":1}}]}]}`, messages, "", false, -1, false, `turn "n" json:{"a":1}`},
		{"a document of text", `{"messages":[{"content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"long text"}}]}]}`, messages, "", false, -1, false, `turn "long text"`},
		{"a document", `{"messages":[{"content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]}]}`, messages, "", false, -1, false, `turn file:3`},
		{"gemini", `{"contents":[{"parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],"systemInstruction":{"parts":[{"text":"sys"}]},"generationConfig":{"maxOutputTokens":8,"candidateCount":2}}`,
			gemini, "g", false, 16, false, `turn "hi" image:3 "sys"`},
		{"gemini in snake case, cached", `{"contents":[],"cached_content":"c","generation_config":{"max_output_tokens":8}}`, gemini, "g", false, 8, true, ""},
		{"gemini's text as data", `{"contents":[{"parts":[{"inlineData":{"mimeType":"text/csv","data":"AAAA"}}]}]}`, gemini, "g", false, -1, false, `turn "AAAA"`},
		{"gemini's bounds in two spellings", `{"generationConfig":{"maxOutputTokens":8,"max_output_tokens":9}}`, gemini, "g", false, 9, false, ""},
		{"gemini's functions", `{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"a":1}}}]}]}`, gemini, "g", false, -1, false, `turn json:{"name":"f","args":{"a":1}}`},
		{"ollama streams unless told not to", `{"model":"l","messages":[{"content":"hi","images":["AAAA"]}],"options":{"num_predict":-1}}`, ollama, "l", true, -1, false, `turn "hi" image:3`},
		{"ollama in one piece", `{"stream":false,"options":{"num_predict":4}}`, ollama, "", false, 4, false, ""},
		{"zero is no bound to ollama", `{"options":{"num_predict":0}}`, ollama, "", true, -1, false, ""},
		{"a completion", `{"prompt":"x","max_tokens":4}`, complete, "", false, 4, false, `"x"`},
		{"a completion for each prompt", `{"prompt":["x","y"],"max_tokens":4,"best_of":2}`, complete, "", false, 16, false, `"x" "y"`},
		{"tokens instead of text", `{"prompt":[1,2,3],"max_tokens":4}`, complete, "", false, 4, false, `ids:3`},
		{"an embedding has no output", `{"input":["x",[1,2]]}`, embed, "", false, 0, false, `"x" ids:2`},
		{"L-005 nothing to say", `{"messages":[]}`, chat, "", false, -1, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := Read(c.route, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if q.Model != c.model || q.Stream != c.stream || q.Output != c.output || q.Hidden != c.hidden || show(q) != c.parts {
				t.Errorf("model %q, stream %v, output %d, hidden %v, parts %s", q.Model, q.Stream, q.Output, q.Hidden, show(q))
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, body := range []string{"", "[]", "null", `"x"`, `{"model":"m"`, `{"model":"m"}x`, `{"model":"a","model":"b"}`, `{"model":"a","Model":"b"}`,
		`{"max_tokens":1,"m\u0061x_tokens":9}`, `{"messages":[],"meſſages":["x"]}`, `{"max_toKens":9,"max_tokens":1}`,
		`{"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}`, `{"stream":true,"stream_options":{"Include_usage":true}}`} {
		if _, err := Read(Route{Dialect: OpenAI, Operation: Chat}, []byte(body)); err != ErrMalformed {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := Read(Route{Dialect: OpenAI}, []byte("not JSON")); err != nil {
		t.Errorf("a call that uses no tokens need not be JSON: %v", err)
	}
}

// TestDepth holds what a body may cost, however it is nested: each byte is looked at so many
// times at most.
func TestDepth(t *testing.T) {
	const deep = 60
	body := []byte(`{"messages":` + strings.Repeat(`[{"a":`, deep) + "[" + strings.Repeat("[],", 100_000) + "[]]" + strings.Repeat(`}]`, deep) + `}`)
	fastest := func(f func()) time.Duration {
		best := time.Hour
		for range 5 {
			began := time.Now()
			f()
			best = min(best, time.Since(began))
		}
		return best
	}
	once := fastest(func() { valueEnd(body, 0) })
	read := fastest(func() {
		if _, err := Read(Route{Dialect: OpenAI, Operation: Chat}, body); err != nil {
			t.Fatal(err)
		}
	})
	if read > 100*once {
		t.Errorf("L-132 a body of %d bytes takes %v to read, and %v to look at once", len(body), read, once)
	}
}

func TestRewrite(t *testing.T) {
	for _, c := range []struct{ name, body, model, want string }{
		{"L-098 usage is asked for", `{"model":"m","stream":true}`, "", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{"L-100 other options stay", `{"stream":true,"stream_options": {"include_obfuscation": false}}`, "",
			`{"stream":true,"stream_options": {"include_usage":true,"include_obfuscation": false}}`},
		{"L-101 an empty object", `{"stream":true,"stream_options":{}}`, "", `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"null", `{"stream":true,"stream_options":null}`, "", `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"said no", `{"stream":true,"stream_options":{"include_usage":false,"x":1}}`, "", `{"stream":true,"stream_options":{"include_usage":true,"x":1}}`},
		{"said yes", `{"stream":true,"stream_options":{"include_usage":true}}`, "", `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"no stream", `{"model":"m"}`, "", `{"model":"m"}`},
		{"another model, all else as it was", "{ \"model\" : \"m\",\n \"seed\": 12345678901234567890 }", `n"x`, "{ \"model\" : \"n\\\"x\",\n \"seed\": 12345678901234567890 }"},
		{"both, in any order", `{"stream_options":{},"stream":true,"model":"m"}`, "n", `{"stream_options":{"include_usage":true},"stream":true,"model":"n"}`},
		{"an empty object stays one", `{}`, "n", `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := Read(Route{Dialect: OpenAI, Operation: Chat}, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(slices.Concat(q.Rewrite(c.model, true)...)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"model":"m","stream":true,"messages":[{"content":[{"text":"x"}]}],"stream_options":{"a":1}}`)
	f.Add(`{"stream":true,"stream_options":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, r := range []Route{{Dialect: OpenAI, Operation: Chat}, {Dialect: Anthropic, Operation: Messages}, {Dialect: Gemini, Operation: Generate}, {Dialect: Ollama, Operation: OllamaChat}, {Dialect: OpenAI, Operation: Completions}} {
			q, err := Read(r, []byte(body))
			if err != nil {
				continue
			}
			if q.Output < -1 || q.Choices < 1 {
				t.Errorf("output %d, choices %d", q.Output, q.Choices)
			}
			if out := slices.Concat(q.Rewrite("other", true)...); json.Valid([]byte(body)) && !json.Valid(out) {
				t.Errorf("%s became %s", body, out)
			}
		}
	})
}
