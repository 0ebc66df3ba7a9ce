package llmtest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/upstream"
)

// requests are one of each kind, with MODEL in place of the model.
var requests = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"MODEL","messages":[{"role":"user","content":"hi"}],"stream":STREAM,"stream_options":{"include_usage":true}}`},
	{"completions", "/v1/completions", `{"model":"MODEL","prompt":"hi","stream":STREAM,"stream_options":{"include_usage":true}}`},
	{"responses", "/v1/responses", `{"model":"MODEL","input":"hi","stream":STREAM}`},
	{"messages", "/v1/messages", `{"model":"MODEL","max_tokens":1000,"messages":[{"role":"user","content":"hi"}],"stream":STREAM}`},
	{"gemini", "/v1beta/models/MODEL:VERB", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
	{"ollama chat", "/api/chat", `{"model":"MODEL","messages":[{"content":"hi"}],"stream":STREAM}`},
	{"ollama generate", "/api/generate", `{"model":"MODEL","prompt":"hi","stream":STREAM}`},
}

// ask sends a request and reads the answer as the gateway does.
func ask(t *testing.T, server string, path, body, plan string, stream bool) (status int, m *dialect.Meter, last dialect.Stage, text string) {
	t.Helper()
	verb, flag := "generateContent", "false"
	if stream {
		verb, flag = "streamGenerateContent?alt=sse", "true"
	}
	in := strings.NewReplacer("MODEL", plan, "STREAM", flag)
	at := strings.NewReplacer("MODEL", url.PathEscape(plan), "VERB", verb).Replace(path)
	r, err := http.Post(server+at, "application/json", strings.NewReader(in.Replace(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		b = append(b, "…cut"...)
	}
	route := dialect.Find("POST", r.Request.URL.Path, r.Request.URL.RawQuery)
	var said strings.Builder
	m = route.NewMeter(func(b []byte) { said.Write(b) })
	if !stream || r.StatusCode != 200 {
		m.ReadWhole(b)
		return r.StatusCode, m, 0, string(b)
	}
	s := dialect.NewSplitter(route.Framing(true))
	s.Feed(b, func(e dialect.Event) { last = m.Read(e) })
	return r.StatusCode, m, last, said.String()
}

func TestEveryDialect(t *testing.T) {
	server := httptest.NewServer(llmtest.New(llmtest.Options{}))
	defer server.Close()
	for _, q := range requests {
		for _, stream := range []bool{false, true} {
			for _, plan := range []string{"mock:input=40,output=20", "mock:input=40,output=20,bytes=1", "mock:input=40,output=20,chunks=64", "mock:input=40,output=20,cache-read=10,reasoning=5"} {
				status, m, last, _ := ask(t, server.URL, q.path, q.body, plan, stream)
				u, told := m.Usage()
				if status != 200 || !told || u.Prompt() != 40 && !strings.Contains(q.name, "ollama") || u.Output != 20 {
					t.Errorf("%s, stream %v, %s: %d, %+v", q.name, stream, plan, status, u)
				}
				if stream && !m.Ended() {
					t.Errorf("%s, %s: the stream ends with %d", q.name, plan, last)
				}
			}
		}
	}
}

func TestFaults(t *testing.T) {
	mock := llmtest.New(llmtest.Options{})
	server := httptest.NewServer(mock)
	defer server.Close()
	defer mock.Close()
	for _, q := range requests {
		t.Run(q.name, func(t *testing.T) {
			if status, m, _, _ := ask(t, server.URL, q.path, q.body, "mock:no-usage", false); status != 200 {
				t.Errorf("no usage: %d", status)
			} else if u, told := m.Usage(); told {
				t.Errorf("no usage: %+v", u)
			}
			if status, _, _, _ := ask(t, server.URL, q.path, q.body, "mock:status=503", true); status != 503 {
				t.Errorf("503: %d", status)
			}
			if _, _, last, _ := ask(t, server.URL, q.path, q.body, "mock:fail-at=1", true); last != dialect.Failure {
				t.Errorf("a failure before the content: %d", last)
			}
			if _, m, last, said := ask(t, server.URL, q.path, q.body, "mock:fail-at=3", true); last != dialect.Failure || said == "" || m.Ended() {
				t.Errorf("a failure in the middle: %d, %q", last, said)
			}
			for _, plan := range []string{"mock:cut-at=3", "mock:cut-at=3,silent"} {
				if _, m, _, said := ask(t, server.URL, q.path, q.body, plan, true); said == "" || m.Ended() {
					t.Errorf("%s: %q, ended %v", plan, said, m.Ended())
				}
			}
		})
	}
	status, _, _, body := ask(t, server.URL, requests[0].path, requests[0].body, "mock:status=429,retry-after=1500ms,code=insufficient_quota", false)
	if v := upstream.Classify(upstream.Answer{Status: status, Body: []byte(body)}); v.Class != upstream.Exhausted {
		t.Errorf("no money is read as %v: %s", v.Class, body)
	}
	if status, _, _, _ := ask(t, server.URL, requests[0].path, requests[0].body, "mock:colour=red", false); status != 400 {
		t.Errorf("a plan that is none: %d", status)
	}
}

func TestBooks(t *testing.T) {
	mock := llmtest.New(llmtest.Options{Key: "k"})
	server := httptest.NewServer(mock)
	defer server.Close()
	if status, _, _, _ := ask(t, server.URL, requests[0].path, requests[0].body, "m", false); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"mock:input=5,output=100,chunks=100,between=1h","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if now, most := mock.AtOnce(); now != 1 || most != 1 {
		t.Errorf("%d at once, %d at most", now, most)
	}
	cancel()
	answer.Body.Close()
	server.Close() // waits for the handlers
	list := mock.Served()
	if len(list) != 2 || list[1].Whole || list[1].Input != 5 || list[1].Output > 2 || mock.Requests() != 2 {
		t.Errorf("%+v", list)
	}
	if n := mock.MostTokens(time.Minute); n < 5 || n > 7 {
		t.Errorf("%d tokens", n)
	}
}
