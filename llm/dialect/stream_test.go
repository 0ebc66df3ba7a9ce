package dialect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// sse writes events down as a server does; "name|data" has an event field.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		name, data, named := strings.Cut(e, "|")
		if !named {
			data = e
		} else {
			b.WriteString("event: " + name + "\n")
		}
		b.WriteString("data: " + data + "\n\n")
	}
	return b.String()
}

// run feeds a stream in pieces of n bytes and returns what the meter makes of it.
func run(r Route, stream string, n int) (stages string, u Usage, said string) {
	var text strings.Builder
	m := r.NewMeter(func(b []byte) { text.Write(b) })
	s := NewSplitter(r.Framing(true))
	emit := func(e Event) { stages += string("pcufX"[m.Read(e)]) }
	for at := 0; at < len(stream); at += n {
		s.Feed([]byte(stream[at:min(at+n, len(stream))]), emit)
	}
	s.Close(emit)
	u, _ = m.Usage()
	return stages, u, text.String()
}

func TestStreams(t *testing.T) {
	chat, responses := Route{Dialect: OpenAI, Operation: Chat}, Route{Dialect: OpenAI, Operation: Responses}
	claude, gemini, ollama := Route{Dialect: Anthropic, Operation: Messages}, Route{Dialect: Gemini, Operation: StreamGenerate}, Route{Dialect: Ollama, Operation: OllamaChat}
	array := Route{Dialect: Gemini, Operation: StreamGenerate, Array: true}
	both := func(u Usage) Usage { u.HasInput, u.HasOutput = true, true; return u }
	for _, c := range []struct {
		name   string
		route  Route
		stream string
		stages string
		usage  Usage
		said   string
	}{
		{"OpenAI", chat, sse(`{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}`, `{"choices":[{"delta":{"content":"Hel"}}]}`, `{"choices":[{"delta":{"content":"lo"}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]"),
			"pcccuf", both(Usage{Input: 3, Output: 2}), "Hello"},
		{"a tool's call is content", chat, sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{"}}]}}]}`), "c", Usage{}, "f{"},
		{"reasoning is content", chat, sse(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`), "c", Usage{}, "hm"},
		{"L-104 Azure's first chunk", chat, sse(`{"choices":[],"prompt_filter_results":[{}],"usage":null}`, `{"choices":[{"delta":{"content":"x"}}]}`), "pc", Usage{}, "x"},
		{"L-089 Groq says it twice", chat, sse(`{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":2}}}`,
			`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`), "cu", both(Usage{Input: 3, Output: 2}), ""},
		{"L-106 usage with every chunk", chat, sse(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":10}}`),
			"cc", both(Usage{Input: 3, Output: 10}), "xx"},
		{"L-121 error null is none", chat, sse(`{"choices":[{"delta":{"content":"x"}}],"error":null}`, `{"error":{"message":"x"}}`), "cX", Usage{}, "x"},
		{"Mistral tells usage with the last choice", chat, sse(`{"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`), "c", both(Usage{Input: 3, Output: 1}), ""},
		{"OpenRouter's comments", chat, ": OPENROUTER PROCESSING\n\n" + sse(`{"choices":[{"delta":{"content":"x"}}]}`), "pc", Usage{}, "x"},
		{"completions", Route{Dialect: OpenAI, Operation: Completions}, sse(`{"choices":[{"text":"x"}]}`, "[DONE]"), "cf", Usage{}, "x"},
		{"L-108 responses fail before they begin", responses, sse(`response.created|{"type":"response.created","response":{"usage":null}}`, `error|{"type":"error","code":"rate_limit_exceeded"}`), "pX", Usage{}, ""},
		{"responses", responses, sse(`response.created|{"type":"response.created"}`, `response.output_text.delta|{"type":"response.output_text.delta","delta":"x"}`,
			`response.completed|{"type":"response.completed","response":{"usage":{"input_tokens":7,"output_tokens":1}}}`), "pcf", both(Usage{Input: 7, Output: 1}), "x"},
		{"responses fail with usage", responses, sse(`response.failed|{"type":"response.failed","response":{"usage":{"input_tokens":7,"output_tokens":1},"error":{"code":"server_error"}}}`), "X", both(Usage{Input: 7, Output: 1}), ""},
		{"Anthropic", claude, sse(`message_start|{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`, `ping|{"type":"ping"}`,
			`content_block_start|{"type":"content_block_start","content_block":{"type":"text","text":""}}`,
			`content_block_delta|{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`, `message_delta|{"type":"message_delta","usage":{"output_tokens":9}}`,
			`message_stop|{"type":"message_stop"}`), "ppcccf", both(Usage{Input: 10, Output: 9}), "x"},
		{"L-088 the cache is not told twice", claude, sse(`{"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":1,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":9,"cache_read_input_tokens":1,"output_tokens":5}}`), "pc", both(Usage{Input: 9, CacheRead: 1, Output: 5}), ""},
		{"L-090 input stays when output comes alone", claude, sse(`{"type":"message_start","message":{"usage":{"input_tokens":100}}}`, `{"type":"message_delta","usage":{"output_tokens":7}}`),
			"pc", both(Usage{Input: 100, Output: 7}), ""},
		{"L-092 input is corrected at the end", claude, sse(`{"type":"message_start","message":{"usage":{"input_tokens":10}}}`, `{"type":"message_delta","usage":{"input_tokens":1510,"output_tokens":7}}`),
			"pc", both(Usage{Input: 1510, Output: 7}), ""},
		{"a later zero takes nothing away", claude, sse(`{"type":"message_start","message":{"usage":{"input_tokens":10}}}`, `{"type":"message_delta","usage":{"input_tokens":0,"output_tokens":7}}`),
			"pc", both(Usage{Input: 10, Output: 7}), ""},
		{"the cache's share comes at the end", claude, sse(`{"type":"message_start","message":{"usage":{"input_tokens":8834}}}`, `{"type":"message_delta","usage":{"input_tokens":18,"cache_read_input_tokens":8831,"output_tokens":1}}`),
			"pc", both(Usage{Input: 18, CacheRead: 8831, Output: 1}), ""},
		{"L-110 Anthropic overloaded before it begins", claude, sse(`message_start|{"type":"message_start"}`, `ping|{"type":"ping"}`, `error|{"type":"error","error":{"type":"overloaded_error"}}`), "ppX", Usage{}, ""},
		{"L-122 no type, but an event field", claude, sse(`message_stop|{}`), "f", Usage{}, ""},
		{"L-093 L-094 Gemini", gemini, sse(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1}}`,
			`{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":6}}`), "cc", both(Usage{Input: 10, Output: 6}), "ab"},
		{"Gemini fails", gemini, sse(`{"error":{"code":503}}`), "X", Usage{}, ""},
		{"Gemini as an array", array, `[{"candidates":[{"content":{"parts":[{"text":"a]}["}]}}]}` + "\n,\r\n" + `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":6}}]`, "cpp", both(Usage{Input: 10, Output: 6}), "a]}["},
		{"Ollama", ollama, `{"message":{"role":"assistant","content":"x"},"done":false}` + "\n" + `{"message":{"content":""},"done":true,"prompt_eval_count":5,"eval_count":2}` + "\n", "cf", both(Usage{Input: 5, Output: 2}), "x"},
		{"Ollama fails", ollama, `{"error":"no"}` + "\n", "X", Usage{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 7, 1 << 20} {
				stages, u, said := run(c.route, c.stream, n)
				if stages != c.stages || u != c.usage || said != c.said {
					t.Errorf("in pieces of %d: %s, %+v, %q\nwant %s, %+v, %q", n, stages, u, said, c.stages, c.usage, c.said)
				}
			}
		})
	}
}

func TestLineEnds(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		stream := strings.ReplaceAll(sse("a", "name|b")+"data: c\ndata:d\n\n: comment\n\n", "\n", end) + "x"
		for n := 1; n < 9; n++ {
			var got []string
			s := NewSplitter(Events)
			emit := func(e Event) { got = append(got, fmt.Sprintf("%s|%s|%v", e.Name, e.Data, e.Cut)) }
			for at := 0; at < len(stream); at += n {
				s.Feed([]byte(stream[at:min(at+n, len(stream))]), emit)
			}
			s.Close(emit)
			if want := "|a|false name|b|false |c\nd|false ||false ||true"; strings.Join(got, " ") != want {
				t.Errorf("%q in pieces of %d: %q", end, n, got)
			}
		}
	}
}

// FuzzSplitter holds the promise that matters most: whatever comes, and however it is cut,
// every byte goes out once and in order, and little of it is held.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("data: x\n\ndata: y\r\n\r\n"), uint64(1))
	f.Add([]byte(`[{"a":"]"},{}]`), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		for _, framing := range []Framing{Events, Lines, Array, Whole} {
			r := rand.New(rand.NewPCG(seed, 0))
			var out []byte
			s := NewSplitter(framing)
			emit := func(e Event) { out = append(out, e.Raw...) }
			for rest := stream; len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				s.Feed(rest[:n], emit)
				rest = rest[n:]
			}
			s.Close(emit)
			if !bytes.Equal(out, stream) {
				t.Fatalf("framing %d: %q became %q", framing, stream, out)
			}
		}
	})
}

func TestLargeEvents(t *testing.T) {
	t.Run("L-114 a line of 4 MiB passes whole, and its usage is read", func(t *testing.T) {
		stream := sse(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 4<<20) + `"}}],"usage":{"prompt_tokens":3,"completion_tokens":9}}`)
		m := Route{Dialect: OpenAI, Operation: Chat}.NewMeter(nil)
		s := NewSplitter(Events)
		var out []byte
		held := 0
		emit := func(e Event) { out = append(out, e.Raw...); m.Read(e); held = max(held, cap(s.buf)) }
		for at := 0; at < len(stream); at += 32 << 10 {
			s.Feed([]byte(stream[at:min(at+32<<10, len(stream))]), emit)
		}
		s.Close(emit)
		if string(out) != stream {
			t.Error("the bytes have changed")
		}
		if held > 2*maxEvent {
			t.Errorf("%d bytes are held", held)
		}
		if u, _ := m.Usage(); u.Input != 3 || u.Output != 9 {
			t.Errorf("usage %+v", u)
		}
	})
	t.Run("L-114 in one piece, if that is asked for", func(t *testing.T) {
		for _, n := range []int{1 << 20, 3 << 20} {
			s := NewSplitter(Events)
			s.Hold(2 << 20)
			var whole, parts int
			emit := func(e Event) {
				if e.Part {
					parts++
				} else if len(e.Data) == n {
					whole++
				}
			}
			stream := "data: " + strings.Repeat("x", n) + "\n\n"
			for at := 0; at < len(stream); at += 32 << 10 {
				s.Feed([]byte(stream[at:min(at+32<<10, len(stream))]), emit)
			}
			if small := n < 2<<20; (whole == 1) != small || (parts == 0) != small || cap(s.buf) > 4<<20 {
				t.Errorf("%d bytes came in %d and %d pieces, and %d are held", n, whole, parts, cap(s.buf))
			}
		}
	})
	t.Run("an answer in one piece of 4 MiB", func(t *testing.T) {
		body := `{"data":[` + strings.Repeat("0.1,", 1<<20) + `0],"usage":{"prompt_tokens":3,"total_tokens":3}}`
		m := Route{Dialect: OpenAI, Operation: Embeddings}.NewMeter(nil)
		s := NewSplitter(Whole)
		var out []byte
		emit := func(e Event) {
			out = append(out, e.Raw...)
			if !e.Part {
				m.ReadWhole(e.Data)
			}
		}
		s.Feed([]byte(body), emit)
		s.Close(emit)
		if u, _ := m.Usage(); string(out) != body || u.Input != 3 {
			t.Errorf("usage %+v, %d bytes", u, len(out))
		}
	})
}

func TestEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		route  Route
		stream string
		want   bool
	}{
		{"L-112 OpenAI is cut", Route{Dialect: OpenAI, Operation: Chat}, sse(`{"choices":[{"delta":{"content":"x"}}]}`), false},
		{"OpenAI", Route{Dialect: OpenAI, Operation: Chat}, sse("[DONE]"), true},
		{"Gemini", Route{Dialect: Gemini, Operation: StreamGenerate}, sse(`{"candidates":[{"finishReason":"STOP"}]}`), true},
		{"Gemini is cut", Route{Dialect: Gemini, Operation: StreamGenerate}, sse(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`), false},
	} {
		m := c.route.NewMeter(nil)
		s := NewSplitter(c.route.Framing(true))
		s.Feed([]byte(c.stream), func(e Event) { m.Read(e) })
		if m.Ended() != c.want {
			t.Errorf("%s: %v", c.name, m.Ended())
		}
	}
}
