package translate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/llm/dialect"
)

// toChat and toMessages translate the answers to a request that is translated to messages,
// and to chat.
func toChat(t testing.TB, more string) *Translation {
	t.Helper()
	got, err := Request(chat, []byte(question(chat, `"max_tokens":5,`+more)), Options{Model: "m", Created: 1767225600})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func toMessages(t testing.TB) *Translation {
	t.Helper()
	got, err := Request(messages, []byte(question(messages, "")), Options{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const (
	completionHead = `{"id":"chatcmpl-\u0031","object":"chat.completion","created":1767225600,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":`
	messageHead    = `{"id":"chatcmpl-\u0031","type":"message","role":"assistant","model":"gpt-5","content":`
)

// completion and message are answers that say the same.
func completion(words, why, usage string) string {
	return completionHead + words + `},"logprobs":null,"finish_reason":"` + why + `"}],"usage":` + usage + `}`
}

func message(content, why, usage string) string {
	return messageHead + content + `,"stop_reason":"` + why + `","stop_sequence":null,"usage":` + usage + `}`
}

const (
	chatFigures = `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":0}}`
	figures     = `{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}`
)

func TestAnswers(t *testing.T) {
	for _, c := range []struct{ name, chat, messages string }{
		{"text", completion(`"hi \ud83d\ude00 \"x\"","refusal":null`, "stop", chatFigures), message(`[{"type":"text","text":"hi \ud83d\ude00 \"x\""}]`, "end_turn", figures)},
		{"L-097 a cache is inside of the prompt, or beside the input", completion(`"a","refusal":null`, "stop",
			`{"prompt_tokens":8849,"completion_tokens":5,"total_tokens":8854,"prompt_tokens_details":{"cached_tokens":8831}}`),
			message(`[{"type":"text","text":"a"}]`, "end_turn", `{"input_tokens":18,"cache_creation_input_tokens":0,"cache_read_input_tokens":8831,"output_tokens":5}`)},
		{"L-097 a cache that is written", completion(`"a","refusal":null`, "stop",
			`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20}}`),
			message(`[{"type":"text","text":"a"}]`, "end_turn", `{"input_tokens":50,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":5}`)},
		{"the bound is reached", completion(`"a","refusal":null`, "length", chatFigures), message(`[{"type":"text","text":"a"}]`, "max_tokens", figures)},
		{"a filter refused", completion(`null,"refusal":null`, "content_filter", chatFigures), message(`[]`, "refusal", figures)},
		{"words and calls", completion(`"see","refusal":null,"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"w","arguments":"{ \"c\":\"P\\u0061ris\",\"n\":1.0}"}},{"id":"b","type":"function","function":{"name":"t","arguments":"{}"}}]`, "tool_calls", chatFigures),
			message(`[{"type":"text","text":"see"},{"type":"tool_use","id":"toolu_1","name":"w","input":{ "c":"P\u0061ris","n":1.0}},{"type":"tool_use","id":"b","name":"t","input":{}}]`, "tool_use", figures)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := toChat(t, "").Answer([]byte(c.messages)); err != nil || string(got) != c.chat {
				t.Errorf("messages → chat: %v\ngot  %s\nwant %s", err, got, c.chat)
			}
			if got, err := toMessages(t).Answer([]byte(c.chat)); err != nil || string(got) != c.messages {
				t.Errorf("chat → messages: %v\ngot  %s\nwant %s", err, got, c.messages)
			}
		})
	}
	text := func(s string) string { return message(`[{"type":"text","text":"`+s+`"}]`, "end_turn", figures) }
	for _, c := range []struct {
		name, answer, want string
		to                 *Translation
	}{
		{"several texts", message(`[{"type":"text","text":"a","citations":null},{"type":"thinking","thinking":"x","signature":"y"},{"type":"text","text":"b"}]`, "stop_sequence", figures),
			completion(`"ab","refusal":null`, "stop", chatFigures), toChat(t, "")},
		{"the context is full", message(`[{"type":"text","text":"a"}]`, "model_context_window_exceeded", figures), completion(`"a","refusal":null`, "length", chatFigures), toChat(t, "")},
		{"a forced call ends with stop", completion(`"","tool_calls":[{"id":"b","type":"function","function":{"name":"t","arguments":""}}]`, "stop", chatFigures),
			message(`[{"type":"tool_use","id":"b","name":"t","input":{}}]`, "tool_use", figures), toMessages(t)},
		{"a refusal is what is said", completion(`null,"refusal":"I cannot"`, "stop", chatFigures), message(`[{"type":"text","text":"I cannot"}]`, "refusal", figures), toMessages(t)},
		{"text in a list, and thoughts", completion(`[{"type":"thinking","thinking":[]},{"type":"text","text":"a"}],"annotations":[],"audio":null,"reasoning_content":"hm"`, "stop", chatFigures), text("a"), toMessages(t)},
		{"L-096 reasoning beside the output", completion(`"a"`, "stop", `{"prompt_tokens":10,"completion_tokens":2,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}`), text("a"), toMessages(t)},
		{"no usage", strings.Replace(completion(`"a"`, "stop", "null"), `"index":0,`, "", 1), message(`[{"type":"text","text":"a"}]`, "end_turn", strings.NewReplacer("10", "0", "5", "0").Replace(figures)), toMessages(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := c.to.Answer([]byte(c.answer)); err != nil || string(got) != c.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, c.want)
			}
		})
	}
}

func TestLostAnswers(t *testing.T) {
	for _, c := range []struct {
		to     *Translation
		answer string
	}{
		{toChat(t, ""), message(`[{"type":"server_tool_use","id":"a","name":"web_search","input":{}}]`, "end_turn", figures)},
		{toChat(t, ""), message(`[{"type":"text","text":"a","citations":[{}]}]`, "end_turn", figures)},
		{toChat(t, ""), message(`[]`, "pause_turn", figures)},
		{toChat(t, ""), strings.Replace(message(`[]`, "end_turn", figures), `"end_turn"`, "null", 1)},
		{toChat(t, ""), `[]`},
		{toChat(t, ""), `{`},
		{toMessages(t), completion(`"a","annotations":[{}]`, "stop", chatFigures)},
		{toMessages(t), completion(`"a","images":[{"url":"x"}]`, "stop", chatFigures)},
		{toMessages(t), completion(`"a","tool_calls":[{"id":"b","type":"function","function":{"name":"t","arguments":"{\"a\":"}}]`, "tool_calls", chatFigures)},
		{toMessages(t), completion(`"a"`, "function_call", chatFigures)},
		{toMessages(t), strings.Replace(completion(`"a"`, "stop", chatFigures), `"choices":[`, `"choices":[{"message":{"content":"b"},"finish_reason":"stop"},`, 1)},
		{toMessages(t), `{"choices":[]}`},
	} {
		if got, err := c.to.Answer([]byte(c.answer)); err == nil {
			t.Errorf("D24 %s became %s", c.answer, got)
		}
	}
}

// sse writes events, each with its event field if it has a type and is Anthropic's.
func sse(list ...string) string {
	b := &strings.Builder{}
	for _, data := range list {
		if kind := kindOf([]byte(data)); kind != "" && kind != "function" {
			b.WriteString("event: " + kind + "\n")
		}
		b.WriteString("data: " + data + "\n\n")
	}
	return b.String()
}

// stream translates a stream that comes in pieces of n bytes.
func stream(to *Translation, in string, n int) (string, error) {
	s, split := to.NewStream(), dialect.NewSplitter(dialect.Events)
	var out []byte
	var failed error
	for at := 0; at < len(in); at += n {
		split.Feed([]byte(in[at:min(at+n, len(in))]), func(e dialect.Event) {
			if failed == nil {
				out, failed = s.Add(out, e)
			}
		})
	}
	if failed == nil {
		out, failed = s.End(out)
	}
	return string(out), failed
}

const chunkHead = `{"id":"msg_1","object":"chat.completion.chunk","created":1767225600,"model":"claude","choices":[`

// chunk is a chunk of OpenAI; withUsage is for a client that wants usage at the end.
func chunk(delta, why string) string {
	return chunkHead + `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + why + `}]}`
}

func withUsage(s string) string {
	return strings.NewReplacer(`null}]}`, `null}],"usage":null}`, `"}]}`, `"}],"usage":null}`).Replace(s)
}

const (
	messageStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}`
	ping         = `{"type":"ping"}`
	messageStop  = `{"type":"message_stop"}`
)

func blockStart(i, block string) string {
	return `{"type":"content_block_start","index":` + i + `,"content_block":` + block + `}`
}

func blockDelta(i, delta string) string {
	return `{"type":"content_block_delta","index":` + i + `,"delta":` + delta + `}`
}

func blockStop(i string) string { return `{"type":"content_block_stop","index":` + i + `}` }

func messageDelta(why, usage string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + why + `","stop_sequence":null},"usage":` + usage + `}`
}

var (
	firstChunk = chunk(`{"role":"assistant","content":""}`, "null")
	lastUsage  = chunkHead + `],"usage":` + chatFigures + `}`
)

// streams are streams that say the same, in each dialect as it is written here.
var streams = []struct {
	name           string
	chat, messages []string
}{
	{"text", []string{firstChunk, chunk(`{"content":"h\u0069"}`, "null"), chunk(`{"content":" you"}`, "null"), chunk(`{}`, `"stop"`), lastUsage, "[DONE]"},
		[]string{messageStart, blockStart("0", `{"type":"text","text":""}`), blockDelta("0", `{"type":"text_delta","text":"h\u0069"}`),
			blockDelta("0", `{"type":"text_delta","text":" you"}`), blockStop("0"), messageDelta("end_turn", figures), messageStop}},
	{"nothing", []string{firstChunk, chunk(`{}`, `"length"`), lastUsage, "[DONE]"}, []string{messageStart, messageDelta("max_tokens", figures), messageStop}},
	{"words and two calls", []string{firstChunk, chunk(`{"content":"see"}`, "null"),
		chunk(`{"tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"w","arguments":""}}]}`, "null"),
		chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{ \"c\":"}}]}`, "null"), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"1.0}"}}]}`, "null"),
		chunk(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"t","arguments":""}}]}`, "null"),
		chunk(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`, "null"), chunk(`{}`, `"tool_calls"`), lastUsage, "[DONE]"},
		[]string{messageStart, blockStart("0", `{"type":"text","text":""}`), blockDelta("0", `{"type":"text_delta","text":"see"}`), blockStop("0"),
			blockStart("1", `{"type":"tool_use","id":"toolu_1","name":"w","input":{}}`), blockDelta("1", `{"type":"input_json_delta","partial_json":"{ \"c\":"}`),
			blockDelta("1", `{"type":"input_json_delta","partial_json":"1.0}"}`), blockStop("1"), blockStart("2", `{"type":"tool_use","id":"b","name":"t","input":{}}`),
			blockDelta("2", `{"type":"input_json_delta","partial_json":"{}"}`), blockStop("2"), messageDelta("tool_use", figures), messageStop}},
}

func TestStreams(t *testing.T) {
	for _, c := range streams {
		for _, n := range []int{1, 7, 1 << 20} {
			t.Run("L-110 L-121 L-122 "+c.name, func(t *testing.T) {
				want := withUsage(sse(c.chat...))
				got, err := stream(toChat(t, `"stream":true,"stream_options":{"include_usage":true},`), sse(c.messages...), n)
				if err != nil || got != want {
					t.Errorf("messages → chat: %v\ngot  %s\nwant %s", err, got, want)
				}
				if strings.Contains(got, `"error"`) {
					t.Error("an error without an error")
				}
				want = sse(c.messages...)
				got, err = stream(toMessages(t), sse(c.chat...), n)
				if err != nil || got != want {
					t.Errorf("chat → messages: %v\ngot  %s\nwant %s", err, got, want)
				}
			})
		}
	}
}

func TestStreamsOneWay(t *testing.T) {
	quiet := toChat(t, `"stream":true,`)
	start := strings.Replace(messageStart, `"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0`, `"input_tokens":8834,"output_tokens":1`, 1)
	said := []string{blockStart("0", `{"type":"text","text":""}`), blockDelta("0", `{"type":"text_delta","text":"a"}`), blockStop("0")}
	for _, c := range []struct {
		name     string
		to       *Translation
		in, want []string
	}{
		{"L-098 usage that nobody asked for, and pings", quiet, []string{messageStart, ping, blockStart("0", `{"type":"text","text":""}`), ping, blockDelta("0", `{"type":"text_delta","text":"a"}`), blockStop("0"), messageDelta("stop_sequence", figures), messageStop},
			[]string{firstChunk, chunk(`{"content":"a"}`, "null"), chunk(`{}`, `"stop"`), "[DONE]"}},
		{"L-097 the last usage counts", toChat(t, `"stream":true,"stream_options":{"include_usage":true},`),
			append(append([]string{start}, said...), messageDelta("end_turn", `{"input_tokens":18,"cache_read_input_tokens":8831,"output_tokens":5}`), messageStop),
			[]string{withUsage(firstChunk), withUsage(chunk(`{"content":"a"}`, "null")), withUsage(chunk(`{}`, `"stop"`)),
				chunkHead + `],"usage":{"prompt_tokens":8849,"completion_tokens":5,"total_tokens":8854,"prompt_tokens_details":{"cached_tokens":8831}}}`, "[DONE]"}},
		{"arguments that come at once, and thoughts", quiet, []string{messageStart, blockStart("0", `{"type":"thinking","thinking":"","signature":""}`), blockDelta("0", `{"type":"thinking_delta","thinking":"x"}`), blockDelta("0", `{"type":"signature_delta","signature":"x"}`), blockStop("0"),
			blockStart("1", `{"type":"tool_use","id":"b","name":"t","input":{ "a":1}}`), blockDelta("1", `{"type":"input_json_delta","partial_json":""}`), blockStop("1"), messageDelta("tool_use", figures), messageStop},
			[]string{firstChunk, chunk(`{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"t","arguments":""}}]}`, "null"),
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{ \"a\":1}"}}]}`, "null"), chunk(`{}`, `"tool_calls"`), "[DONE]"}},
		{"L-104 Azure's first chunk, L-121 an error that is none, and no last word", toMessages(t), []string{`{"id":"","model":"","choices":[],"prompt_filter_results":[],"usage":null}`,
			strings.Replace(chunk(`{"role":"assistant","content":"a","refusal":null}`, "null"), `{"id"`, `{"error":null,"id"`, 1), chunk(`{}`, `"stop"`), lastUsage},
			append(append([]string{messageStart}, said...), messageDelta("end_turn", figures), messageStop)},
		{"L-106 usage on every chunk, and a call at once that had to be", toMessages(t), []string{strings.Replace(firstChunk, "}]}", `}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`, 1),
			chunk(`{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"t","arguments":"{}"}}]}`, "null"), chunk(`{}`, `"stop"`), lastUsage, "[DONE]"},
			[]string{messageStart, blockStart("0", `{"type":"tool_use","id":"b","name":"t","input":{}}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"{}"}`), blockStop("0"), messageDelta("tool_use", figures), messageStop}},
		{"words behind the end", quiet, []string{messageStart, messageDelta("end_turn", figures), messageStop, messageStart, blockStart("0", `{"type":"text","text":"a"}`), messageStop},
			[]string{firstChunk, chunk(`{}`, `"stop"`), "[DONE]"}},
		{"words behind the end too", toMessages(t), []string{firstChunk, chunk(`{}`, `"stop"`), lastUsage, "[DONE]", chunk(`{"content":"a"}`, "null"), "[DONE]"},
			[]string{messageStart, messageDelta("end_turn", figures), messageStop}},
		{"a refusal, and thoughts", toMessages(t), []string{chunk(`{"role":"assistant","reasoning_content":"hm"}`, "null"), chunk(`{"refusal":"a"}`, "null"), chunk(`{}`, `"stop"`), lastUsage, "[DONE]"},
			append(append([]string{messageStart}, said...), messageDelta("refusal", figures), messageStop)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := stream(c.to, sse(c.in...), 16); err != nil || got != sse(c.want...) {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, sse(c.want...))
			}
		})
	}
}

func TestLostStreams(t *testing.T) {
	call := func(i, rest string) string {
		return chunk(`{"tool_calls":[{"index":`+i+rest+`}]}`, "null")
	}
	inChat, inMessages := []string{chunk(`{}`, `"stop"`), "[DONE]"}, []string{messageDelta("end_turn", figures), messageStop}
	for _, c := range []struct {
		name string
		to   *Translation
		in   []string
		end  []string
	}{
		{"L-112 is cut", toChat(t, ""), []string{messageStart}, nil},
		{"L-112 is cut too", toMessages(t), []string{firstChunk}, nil},
		{"does not begin", toChat(t, ""), []string{blockStart("0", `{"type":"text","text":"a"}`), messageDelta("end_turn", figures), messageStop}, nil},
		{"L-110 begins twice", toChat(t, ""), []string{messageStart, messageStart, messageDelta("end_turn", figures), messageStop}, nil},
		{"ends without a reason", toChat(t, ""), []string{messageStart, messageStop}, nil},
		{"ends without a reason too", toMessages(t), []string{firstChunk, "[DONE]"}, nil},
		{"an unknown block", toChat(t, ""), []string{messageStart, blockStart("0", `{"type":"server_tool_use","id":"a","name":"b","input":{}}`)}, inMessages},
		{"an unknown piece", toChat(t, ""), []string{messageStart, blockStart("0", `{"type":"text","text":""}`), blockDelta("0", `{"type":"citations_delta","citation":{}}`)}, inMessages},
		{"a piece of no block", toChat(t, ""), []string{messageStart, blockDelta("0", `{"type":"text_delta","text":"a"}`)}, inMessages},
		{"a piece of another block", toChat(t, ""), []string{messageStart, blockStart("0", `{"type":"text","text":""}`), blockDelta("1", `{"type":"text_delta","text":"a"}`)}, inMessages},
		{"an unknown word", toMessages(t), []string{chunk(`{"audio":{"data":"x"}}`, "null")}, inChat},
		{"a second choice", toMessages(t), []string{strings.Replace(firstChunk, `"index":0`, `"index":1`, 1)}, inChat},
		{"calls that mix", toMessages(t), []string{call("0", `,"id":"a","function":{"name":"t","arguments":""}`), call("1", `,"id":"b","function":{"name":"t","arguments":""}`), call("0", `,"function":{"arguments":"{}"}`)}, inChat},
		{"a call without a name", toMessages(t), []string{call("0", `,"function":{"arguments":"{}"}`)}, inChat},
		{"arguments behind a text", toMessages(t), []string{call("0", `,"id":"a","function":{"name":"t","arguments":""}`), chunk(`{"content":"a"}`, "null"), call("0", `,"function":{"arguments":"{}"}`)}, inChat},
		{"no JSON", toMessages(t), []string{`{`}, inChat},
	} {
		if got, err := stream(c.to, sse(append(c.in, c.end...)...), 1<<20); err == nil {
			t.Errorf("D24 %s: became %s", c.name, got)
		}
	}
	for _, e := range []dialect.Event{{Part: true}, {Cut: true, Data: []byte(`{"ty`)}} {
		if _, err := toChat(t, "").NewStream().Add(nil, e); err == nil {
			t.Errorf("%+v is no event", e)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		to     *Translation
		status int
		body   string
		want   dialect.Fault
	}{
		{"Anthropic is overloaded", toChat(t, ""), 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`,
			dialect.Fault{Status: 503, Code: "overloaded_error", Message: "Overloaded", RequestID: "req_1"}},
		{"the same inside of a stream", toChat(t, ""), 200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, dialect.Fault{Status: 503, Code: "overloaded_error", Message: "Overloaded"}},
		{"OpenAI's limit", toMessages(t), 429, `{"error":{"message":"slow","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, dialect.Fault{Status: 429, Code: "rate_limit_exceeded", Message: "slow"}},
		{"the same inside of a stream", toMessages(t), 200, `{"error":{"message":"slow","type":"tokens","code":"rate_limit_exceeded"}}`, dialect.Fault{Status: 429, Code: "rate_limit_exceeded", Message: "slow"}},
		{"no JSON", toMessages(t), 502, `<html>`, dialect.Fault{Status: 502, Code: "upstream-failed", Message: "The provider has failed and does not say why."}},
		{"an error nobody knows", toMessages(t), 200, `{"error":{"code":7}}`, dialect.Fault{Status: 500, Code: "upstream-failed", Message: "The provider has failed and does not say why."}},
	} {
		if got := c.to.Fault(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// FuzzAnswer holds that nothing panics and that what comes out is JSON, in pieces or not.
func FuzzAnswer(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(sse(c.chat...)))
		f.Add([]byte(sse(c.messages...)))
	}
	f.Add([]byte(message(`[{"type":"tool_use","id":"b","name":"t","input":{}}]`, "tool_use", figures)))
	f.Add([]byte(completion(`"a","tool_calls":[{"id":"b","function":{"name":"t","arguments":"{}"}}]`, "stop", chatFigures)))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, to := range []*Translation{toChat(t, `"stream":true,"stream_options":{"include_usage":true},`), toMessages(t)} {
			if got, err := to.Answer(in); err == nil && !json.Valid(got) {
				t.Fatalf("%s became %s", in, got)
			}
			got, _ := stream(to, string(in), 1+len(in)/3)
			split := dialect.NewSplitter(dialect.Events)
			check := func(e dialect.Event) {
				if string(e.Data) != "[DONE]" && !json.Valid(e.Data) {
					t.Fatalf("%s became %s", in, e.Data)
				}
			}
			split.Feed([]byte(got), check)
			split.Close(check)
		}
	})
}
