package translate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/llm/dialect"
)

var (
	chat     = dialect.Route{Dialect: dialect.OpenAI, Operation: dialect.Chat, Known: true}
	messages = dialect.Route{Dialect: dialect.Anthropic, Operation: dialect.Messages, Known: true}
)

// pairs are requests that say the same: the left in OpenAI's chat, the right in Anthropic's
// messages. Each becomes the other, byte for byte.
var pairs = []struct{ name, chat, messages string }{
	{"text",
		`{"model":"m","messages":[{"role":"user","content":"h\u0069 \ud83d\ude00 \/"}],"max_completion_tokens":100}`,
		`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"h\u0069 \ud83d\ude00 \/"}]}`},
	{"a system, and turns",
		`{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"max_completion_tokens":1}`,
		`{"model":"m","max_tokens":1,"system":"be brief","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`},
	{"texts in parts",
		`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}],"max_completion_tokens":1}`,
		`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]}`},
	{"numbers keep their form",
		`{"model":"m","messages":[{"role":"user","content":"a"}],"max_completion_tokens":9007199254740993,"temperature":0.70,"top_p":1e-1,"stream":false,"user":"u-1"}`,
		`{"model":"m","max_tokens":9007199254740993,"messages":[{"role":"user","content":"a"}],"temperature":0.70,"top_p":1e-1,"stream":false,"metadata":{"user_id":"u-1"}}`},
	{"pictures",
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},{"type":"image_url","image_url":{"url":"https://e.com/a.png?b=\u0026c"}},{"type":"text","text":"what?"}]}],"max_completion_tokens":1}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"image","source":{"type":"url","url":"https://e.com/a.png?b=\u0026c"}},{"type":"text","text":"what?"}]}]}`},
	{"tools, several calls at once, and their results with what is said then",
		`{"model":"m","messages":[{"role":"user","content":"w?"},{"role":"assistant","content":"let me see","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{ \"city\": \"Par\\u0069s\", \"n\":1.0 }"}},{"id":"toolu_2","type":"function","function":{"name":"time","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"call_1","content":"sunny"},{"role":"tool","tool_call_id":"toolu_2","content":[{"type":"text","text":"noon"}]},{"role":"user","content":[{"type":"text","text":"so?"}]}],"max_completion_tokens":1,` +
			`"tools":[{"type":"function","function":{"name":"weather","description":"tells it","parameters":{"type":"object", "properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"time","parameters":{"type":"object"}}}],"tool_choice":"auto","parallel_tool_calls":true}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"w?"},{"role":"assistant","content":[{"type":"text","text":"let me see"},{"type":"tool_use","id":"call_1","name":"weather","input":{ "city": "Par\u0069s", "n":1.0 }},{"type":"tool_use","id":"toolu_2","name":"time","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"sunny"},{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"noon"}]},{"type":"text","text":"so?"}]}],` +
			`"tools":[{"name":"weather","description":"tells it","input_schema":{"type":"object", "properties":{"city":{"type":"string"}}}},{"name":"time","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":false}}`},
	{"a call without a word, of a tool that was chosen",
		`{"model":"m","messages":[{"role":"user","content":"w?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":""},{"role":"user","content":[{"type":"text","text":"x"}]}],"max_completion_tokens":1,"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"t"}},"parallel_tool_calls":false}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"w?"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":""},{"type":"text","text":"x"}]}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"t","disable_parallel_tool_use":true}}`},
	{"any tool, and none",
		`{"model":"m","messages":[{"role":"user","content":"a"}],"max_completion_tokens":1,"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object"}}}],"tool_choice":"required"}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}`},
}

// put translates a request, which keeps its model.
func put(r dialect.Route, body string) (string, error) {
	t, err := Request(r, []byte(body), Options{Model: "m", StreamUsage: true})
	if err != nil {
		return "", err
	}
	return string(t.Body), nil
}

func TestPairs(t *testing.T) {
	for _, c := range pairs {
		t.Run("B-33 "+c.name, func(t *testing.T) {
			if got, err := put(chat, c.chat); err != nil || got != c.messages {
				t.Errorf("chat → messages: %v\ngot  %s\nwant %s", err, got, c.messages)
			}
			if got, err := put(messages, c.messages); err != nil || got != c.chat {
				t.Errorf("messages → chat: %v\ngot  %s\nwant %s", err, got, c.chat)
			}
		})
	}
}

// question is a request with more fields.
func question(r dialect.Route, more string) string {
	bound := `"max_tokens":5,`
	if r.Operation == dialect.Chat {
		bound = ""
	}
	return `{"model":"x",` + bound + more + `"messages":[{"role":"user","content":"a"}]}`
}

func TestOneWay(t *testing.T) {
	tools := `"tools":[{"type":"function","function":{"name":"t"}}],`
	wrote := `"tools":[{"name":"t","input_schema":{"type":"object","properties":{}}}]`
	for _, c := range []struct {
		name  string
		route dialect.Route
		body  string
		want  string
	}{
		{"the bound is the model's own", chat, question(chat, ""), `{"model":"m","max_tokens":64000,"messages":[{"role":"user","content":"a"}]}`},
		{"two bounds that are one", chat, question(chat, `"max_tokens":7,"max_completion_tokens":7,`), `{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}]}`},
		{"null and what says nothing", chat, question(chat, `"n":1,"seed":null,"logprobs":false,"logit_bias":{},"presence_penalty":0,"store":false,"response_format":{"type":"text"},"modalities":["text"],"x":null,"max_tokens":7,`),
			`{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}]}`},
		{"stop, as one", chat, question(chat, `"stop":"END","max_tokens":7,`), `{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}],"stop_sequences":["END"]}`},
		{"stop, as a list", chat, question(chat, `"stop":["E","\n\nF"],"max_tokens":7,`), `{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}],"stop_sequences":["E","\n\nF"]}`},
		{"systems and developers", chat, `{"messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"}],"max_tokens":7}`,
			`{"model":"m","max_tokens":7,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user","content":"c"}]}`},
		{"a stream with its options", chat, question(chat, `"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"max_tokens":7,`),
			`{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}],"stream":true}`},
		{"a tool without parameters", chat, question(chat, tools+`"max_tokens":7,`), `{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}],` + wrote + `}`},
		{"one call at a time", chat, question(chat, tools+`"parallel_tool_calls":false,"max_tokens":7,`),
			`{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}],` + wrote + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`},
		{"none of the tools", chat, question(chat, tools+`"tool_choice":"none","parallel_tool_calls":false,"max_tokens":7,`),
			`{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}],` + wrote + `,"tool_choice":{"type":"none"}}`},
		{"an answer that comes back as it was given", chat, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","refusal":null,"annotations":[],"audio":null,"function_call":null},{"role":"user","content":"c"}],"max_tokens":7}`,
			`{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`},
		{"a stream's usage is asked for", messages, question(messages, `"stream":true,"thinking":{"type":"disabled"},`),
			`{"model":"m","messages":[{"role":"user","content":"a"}],"max_completion_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`},
		{"blocks that come back as they were given", messages, `{"max_tokens":5,"tools":[{"type":"custom","name":"t","input_schema":{"type":"object"},"cache_control":null}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b","citations":null},{"type":"tool_use","id":"c","name":"t","input":{},"caller":{"type":"direct"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":false}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":""}],"max_completion_tokens":5,"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object"}}}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Request(c.route, []byte(c.body), Options{Model: "m", MaxOutput: 64000, StreamUsage: true})
			if err != nil || string(got.Body) != c.want {
				t.Fatalf("%v\ngot  %s\nwant %s", err, got.Body, c.want)
			}
		})
	}
}

func TestLosses(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"t"}}],`
	const picture = `[{"type":"image_url","image_url":{"url":"https://e.com/a.png"}}]`
	user := func(content string) string {
		return `{"max_tokens":5,"messages":[{"role":"user","content":` + content + `}]}`
	}
	after := func(message string) string {
		return `{"max_tokens":5,` + tools + `"messages":[{"role":"user","content":"a"},` + message + `,{"role":"user","content":"b"}]}`
	}
	claude := func(message string) string {
		return `{"max_tokens":5,"messages":[{"role":"user","content":"a"},` + message + `,{"role":"user","content":"b"}]}`
	}
	for _, c := range []struct {
		route dialect.Route
		body  string
		where string
	}{
		// What only OpenAI has.
		{chat, question(chat, `"max_tokens":5,"n":2,`), "n"},
		{chat, question(chat, `"max_tokens":5,"logprobs":true,`), "logprobs"},
		{chat, question(chat, `"max_tokens":5,"seed":7,`), "seed"},
		{chat, question(chat, `"max_tokens":5,"response_format":{"type":"json_object"},`), "response_format"},
		{chat, question(chat, `"max_tokens":5,"reasoning_effort":"low",`), "reasoning_effort"},
		{chat, question(chat, `"max_tokens":5,"presence_penalty":0.5,`), "presence_penalty"},
		{chat, question(chat, `"max_tokens":5,"temperature":1.5,`), "temperature"},
		{chat, question(chat, `"max_tokens":5,"service_tier":"flex",`), "service_tier"},
		{chat, question(chat, `"max_tokens":5,"metadata":{"a":"b"},`), "metadata"},
		{chat, question(chat, `"max_tokens":5,"nobody_knows_this":1,`), "nobody_knows_this"},
		{chat, question(chat, `"max_tokens":5,"Stream":true,`), "Stream"},
		{chat, question(chat, `"max_tokens":5,"max_completion_tokens":6,`), "max_completion_tokens"},
		{chat, question(chat, `"max_tokens":0,`), "max_tokens"},
		{chat, question(chat, ``), "max_tokens"},
		{chat, question(chat, `"max_tokens":5,"stop":" ",`), "stop[0]"},
		{chat, question(chat, `"max_tokens":5,"stop":"a","stop":"b",`), "stop"},
		{chat, question(chat, `"max_tokens":5,"stream_options":{"include_usage":true},`), "stream_options"},
		{chat, question(chat, `"max_tokens":5,"stream":true,"stream_options":{"include_obfuscation":true},`), "stream_options.include_obfuscation"},
		{chat, question(chat, `"max_tokens":5,"tool_choice":"auto",`), "tool_choice"},
		{chat, question(chat, `"max_tokens":5,"tools":[{"type":"function","function":{"name":"t","strict":true}}],`), "tools[0].function.strict"},
		{chat, question(chat, `"max_tokens":5,"tools":[{"type":"custom","custom":{}}],`), "tools[0].type"},
		{chat, question(chat, `"max_tokens":5,"tools":[{"type":"function","function":{"name":"a.b"}}],`), "tools[0].function.name"},
		{chat, question(chat, `"max_tokens":5,"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"string"}}}],`), "tools[0].function.parameters"},
		{chat, user(`" \n"`), "messages"},
		{chat, user(`[]`), "messages[0]"},
		{chat, user(`[{"type":"image_url","image_url":{"url":"https://e.com/a.png","detail":"high"}}]`), "messages[0].content[0].image_url.detail"},
		{chat, user(`[{"type":"image_url","image_url":{"url":"http://e.com/a.png"}}]`), "messages[0].content[0].image_url.url"},
		{chat, user(`[{"type":"image_url","image_url":{"url":"data:image/tiff;base64,AAAA"}}]`), "messages[0].content[0].image_url.url"},
		{chat, user(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA%3D"}}]`), "messages[0].content[0].image_url.url"},
		{chat, user(`[{"type":"input_audio","input_audio":{}}]`), "messages[0].content[0].type"},
		{chat, user(`[{"type":"file","file":{}}]`), "messages[0].content[0].type"},
		{chat, `{"max_tokens":5,"messages":[{"role":"user","name":"Bo","content":"a"}]}`, "messages[0].name"},
		{chat, `{"max_tokens":5,"messages":[{"role":"function","name":"f","content":"a"}]}`, "messages[0].name"},
		{chat, `{"max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, "messages"},
		{chat, `{"max_tokens":5,"messages":[{"role":"assistant","content":"b"},{"role":"user","content":"a"}]}`, "messages"},
		{chat, `{"max_tokens":5,"messages":[{"role":"system","content":"b"}]}`, "messages"},
		{chat, after(`{"role":"system","content":"c"}`), "messages[1]"},
		{chat, after(`{"role":"assistant","content":"c","refusal":"no"}`), "messages[1].refusal"},
		{chat, after(`{"role":"assistant","reasoning_content":"c","content":"d"}`), "messages[1].reasoning_content"},
		{chat, after(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":""}}]}`), "messages[1].tool_calls[0].function.arguments"},
		{chat, after(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{\"a\":"}}]}`), "messages[1].tool_calls[0].function.arguments"},
		{chat, after(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"[1]"}}]}`), "messages[1].tool_calls[0].function.arguments"},
		{chat, after(`{"role":"assistant","tool_calls":[{"id":"c.1","type":"function","function":{"name":"t","arguments":"{}"}}]}`), "messages[1].tool_calls[0].id"},
		{chat, strings.Replace(after(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]}`), tools, "", 1), "tools"},
		{chat, after(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{\"a\":\"\ud800\"}"}}]}`), "messages[1].tool_calls[0].function.arguments"},
		{chat, question(chat, `"max_tokens":5,"user":"`+strings.Repeat("é", 257)+`",`), "user"},
		{chat, `{"max_tokens":5,"messages":[{"role":"system","content":` + picture + `},{"role":"user","content":"a"}]}`, "messages[0]"},
		{chat, after(`{"role":"assistant","content":` + picture + `}`), "messages[1]"},
		{chat, after(`{"role":"tool","tool_call_id":"c","content":` + picture + `}`), "messages[1]"},
		{chat, after(`{"role":"tool","content":"c"}`), "messages[1]"},
		{chat, after(`{"role":"user","content":"c","tool_call_id":"c"}`), "messages[1]"},
		// What only Anthropic has.
		{messages, question(messages, `"top_k":5,`), "top_k"},
		{messages, question(messages, `"thinking":{"type":"enabled","budget_tokens":1024},`), "thinking"},
		{messages, question(messages, `"stop_sequences":["a"],`), "stop_sequences"},
		{messages, question(messages, `"service_tier":"auto",`), "service_tier"},
		{messages, question(messages, `"metadata":{"x":1},`), "metadata.x"},
		{messages, question(messages, `"container":"c",`), "container"},
		{messages, question(messages, `"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],`), "system[0].cache_control"},
		{messages, question(messages, `"tools":[{"type":"web_search_20250305","name":"web_search"}],`), "tools[0].type"},
		{messages, question(messages, `"tools":[{"name":"t","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],`), "tools[0].cache_control"},
		{messages, question(chat, ``), "max_tokens"},
		{messages, claude(`{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b"}]}`), "messages[1].content[0].type"},
		{messages, claude(`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{}},{"type":"text","text":"a"}]}`), "messages[1].content[1]"},
		{messages, claude(`{"role":"assistant","content":"a","stop_reason":"end_turn"}`), "messages[1].stop_reason"},
		{messages, claude(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"c"}]}`), "messages[1].content[1]"},
		{messages, claude(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true}]}`), "messages[1].content[0].is_error"},
		{messages, claude(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"url","url":"https://e.com/"}}]}]}`), "messages[1].content[0].content"},
		{messages, claude(`{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"c"}]}`), "messages[1].content"},
		{messages, claude(`{"role":"assistant","content":[{"type":"image","source":{"type":"url","url":"https://e.com/"}}]}`), "messages[1].content"},
		{messages, claude(`{"role":"user","content":[{"type":"tool_use","id":"c","name":"t","input":{}}]}`), "messages[1].content"},
		{messages, claude(`{"role":"system","content":"c"}`), "messages[1].role"},
		{messages, claude(`{"role":"user","content":[{"type":"document","source":{}}]}`), "messages[1].content[0].type"},
		{messages, claude(`{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}`), "messages[1].content[0].source.type"},
		{messages, `{"max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}]}`, "messages"},
	} {
		r := c.route
		_, err := Request(r, []byte(c.body), Options{Model: "m"})
		loss, ok := errors.AsType[*Loss](err)
		if !ok || loss.Where != c.where {
			t.Errorf("D24 %s: %v, want a loss at %s", c.body, err, c.where)
		}
	}
	for _, body := range []string{``, `[]`, `{"a"}`, `{} {}`, `null`, `{"messages":{}}`, `{"messages":[3]}`} {
		for _, r := range []dialect.Route{chat, messages, {Dialect: dialect.OpenAI, Operation: dialect.Responses}} {
			if _, err := Request(r, []byte(body), Options{Model: "m", MaxOutput: 1}); err == nil {
				t.Errorf("%s is no request", body)
			}
		}
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a\x00\x1f\t\r\n\"\\/<>é😀\u2028", "{\"a\": \"\\u0061\"}"} {
		var back string
		if err := json.Unmarshal(quote([]byte(s)), &back); err != nil || back != s {
			t.Errorf("%q became %q: %v", s, back, err)
		}
	}
}

// FuzzRequest holds that nothing panics, that what comes out is JSON, and that it comes back
// as it is: what was translated once is translated without a change from then on.
func FuzzRequest(f *testing.F) {
	for _, c := range pairs {
		f.Add([]byte(c.chat))
		f.Add([]byte(c.messages))
	}
	f.Add([]byte(`{"messages":[{"role":"user","content":"\ud800"}],"max_tokens":1,"user":"\u0000"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, r := range []dialect.Route{chat, messages} {
			there, err := Request(r, body, Options{Model: "m", MaxOutput: 9})
			if err != nil {
				continue
			}
			if !json.Valid(there.Body) {
				t.Fatalf("%s became %s", body, there.Body)
			}
			back, err := Request(there.Route, there.Body, Options{Model: "m", MaxOutput: 9})
			if err != nil {
				continue // stop, and texts of space, go one way
			}
			again, err := Request(r, back.Body, Options{Model: "m", MaxOutput: 9})
			if err != nil || string(again.Body) != string(there.Body) {
				t.Fatalf("%s\nbecame %s\nand then %s: %v", body, there.Body, again.Body, err)
			}
		}
	})
}
