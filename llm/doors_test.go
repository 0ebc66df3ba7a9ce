package llm_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
)

// A spy is a provider that keeps what it was sent.
type spy struct {
	mu   sync.Mutex
	seen []*http.Request
	url  string
}

const told = `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`

// newSpy starts a spy that answers so, or with told.
func newSpy(t *testing.T, answer http.HandlerFunc) *spy {
	s := &spy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, told)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *spy) last(t *testing.T) *http.Request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		t.Fatal("nothing has come")
	}
	return s.seen[len(s.seen)-1]
}

// provider is the spy as a provider of this name.
func (s *spy) provider(name string, keys ...llm.Key) llm.Provider {
	return llm.Provider{Name: name, Dialect: dialect.OpenAI, BaseURL: s.url + "/v1", Keys: keys}
}

func TestCredentials(t *testing.T) {
	const shown = "sk-shown"
	send := func(t *testing.T, own bool, query string, p func(*spy) llm.Provider) *http.Request {
		s := newSpy(t, nil)
		r := newRig(t, llm.Options{Providers: []llm.Provider{p(s)}, Identify: func(*http.Request, string) (llm.Caller, error) {
			return llm.Caller{Subject: "a", Tenant: "a", Own: own}, nil
		}}, nil)
		a := r.postWith(t.Context(), "/spy/v1/chat/completions"+query, chatBody("m", 10, false), "Authorization", "Bearer "+shown, "X-Api-Key", shown, "Api-Key", shown,
			"X-Goog-Api-Key", shown, "Openai-Organization", "org", "Openai-Project", "p", "X-Goog-User-Project", "p", "Cookie", "c="+shown, "Anthropic-Beta", "b",
			"Connection", "X-Hop", "X-Hop", shown, "X-Http-Method-Override", "GET", "X-Forwarded-For", "203.0.113.9", "Proxy-Authorization", shown)
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return s.last(t)
	}
	held := func(s *spy) llm.Provider { return s.provider("spy", llm.Key{ID: "k", Secret: "sk-held"}) }
	bare := func(s *spy) llm.Provider { return s.provider("spy") }
	for _, c := range []struct {
		name       string
		own        bool
		provider   func(*spy) llm.Provider
		credential string
	}{
		{"the gateway's key takes the place of the client's", false, held, "Bearer sk-held"},
		{"the gateway's own credential is sent to nobody", true, bare, ""},
		{"a provider's own credential passes", false, bare, "Bearer " + shown},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := send(t, c.own, "?a=b&key="+shown+"&%6bey="+shown+"&KEY="+shown, c.provider)
			if got.Header.Get("Authorization") != c.credential || got.Header.Get("Anthropic-Beta") != "b" || !strings.HasPrefix(got.URL.RawQuery, "a=b") {
				t.Errorf("%v %s", got.Header, got.URL.RawQuery)
			}
			for _, name := range []string{"Cookie", "X-Hop", "X-Http-Method-Override", "X-Forwarded-For", "Proxy-Authorization", "Connection"} {
				if got.Header.Get(name) != "" {
					t.Errorf("%s is sent", name)
				}
			}
			if c.credential == "Bearer "+shown {
				return
			}
			if all := fmt.Sprint(got.Header, got.URL); strings.Contains(all, shown) || strings.Contains(all, "org") {
				t.Errorf("the client's credential or account is sent: %s", all)
			}
		})
	}
	t.Run("what the provider's address says counts", func(t *testing.T) {
		got := send(t, false, "?api-version=evil&x=y", func(s *spy) llm.Provider {
			p := held(s)
			p.BaseURL += "/deployments/{model}?api-version=1"
			return p
		})
		if got.URL.Path != "/v1/deployments/m/chat/completions" || got.URL.RawQuery != "x=y&api-version=1" {
			t.Errorf("%s", got.URL)
		}
	})
}

func TestPaths(t *testing.T) {
	s := newSpy(t, nil)
	o := llm.Options{Unknown: true, Providers: []llm.Provider{s.provider("spy", llm.Key{ID: "k", Secret: "x"})}}
	r := newRig(t, o, nil, rule("spy", "spy", tokens(1000)))
	for _, c := range []struct {
		name, path, model string
		status            int
	}{
		{"upwards", "/spy/v1/models/%2e%2e/organization/users", "m", 404},
		{"upwards with a backslash", `/spy/v1/models/..%5corganization`, "m", 404},
		{"upwards by a model", "/spy/v1/chat/completions", "../x", 400},
		{"a model's name without end", "/spy/v1/chat/completions", strings.Repeat("m", 300), 400},
		{"L-138 a slash at the end is no free pass", "/spy/v1/chat/completions/", "m", 429},
		{"L-138 nor are two of them", "/spy/v1//chat//completions", "m", 429},
		{"L-138 nor large letters", "/spy/v1/Chat/COMPLETIONS", "m", 429},
		{"L-138 nor parameters", "/spy/v1/chat/completions;x", "m", 429},
		{"L-138 nor escapes", "/spy/v1/chat/%63ompletions", "m", 429},
	} {
		if a := r.post(t.Context(), c.path, chatBody(c.model, 5000, false)); a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if len(s.seen) != 0 {
		t.Errorf("%s has come", s.seen[0].URL)
	}
}

func TestBodies(t *testing.T) {
	t.Run("a compressed body would be counted by less", func(t *testing.T) {
		r := newRig(t, llm.Options{Malformed: true}, nil, rule("openai", "openai", tokens(1000), requests(5)))
		var b strings.Builder
		z := gzip.NewWriter(&b)
		io.WriteString(z, chatBody(strings.Repeat("m", 100), 10, false))
		z.Close()
		if a := r.postWith(t.Context(), "/v1/chat/completions", b.String(), "Content-Encoding", "gzip"); a.status != 415 || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %s", a.status, a.body)
		}
		if left := r.left("openai", "rpm", attempt("openai")); left != 5 {
			t.Errorf("%d left", left)
		}
	})
	t.Run("one without a length, and one over HTTP/1.0", func(t *testing.T) {
		r := newRig(t, llm.Options{MaxBody: 300}, nil)
		body := chatBody("m", 10, false)
		for _, c := range []struct{ head, body, want string }{
			{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body), " 200 "},
			{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", "200\r\n" + strings.Repeat("x", 512) + "\r\n0\r\n\r\n", " 413 "},
			{fmt.Sprintf("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n", len(body)), body, " 200 "},
			{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 301\r\nConnection: close\r\n\r\n", "", " 413 "},
		} {
			if got := r.raw(c.head + c.body); !strings.Contains(got, c.want) {
				t.Errorf("%q: %s", c.head, got)
			}
		}
	})
	t.Run("all together are bounded", func(t *testing.T) {
		r := newRig(t, llm.Options{MaxBodies: 1500}, plans{"openai": func(q *llmtest.Request) llmtest.Plan { return llmtest.Plan{Hang: q.N == 1} }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		long := `{"model":"m","messages":[],"metadata":"` + strings.Repeat("x", 1000) + `"}`
		go r.post(ctx, "/v1/chat/completions", long)
		r.eventually("the first is under way", func() bool { return r.mocks["openai"].Requests() == 1 })
		if a := r.post(t.Context(), "/v1/chat/completions", long); a.status != 503 || a.header.Get("X-Sluice-Reason") != "crowded" || a.header.Get("Retry-After") != "1" {
			t.Errorf("the second: %d %s", a.status, a.body)
		}
		if a := r.chat("m", 10, false); a.status != 200 {
			t.Errorf("a short one: %d", a.status)
		}
		cancel()
		r.observed(3)
		if a := r.post(t.Context(), "/v1/chat/completions", long); a.status != 200 {
			t.Errorf("when there is room again: %d %s", a.status, a.body)
		}
	})
	t.Run("one that does not arrive", func(t *testing.T) {
		r := newRig(t, llm.Options{BodyTime: 50 * time.Millisecond}, nil)
		if got := r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); !strings.Contains(got, " 408 ") {
			t.Errorf("%s", got)
		}
	})
	t.Run("L-116 a compressed answer is read", func(t *testing.T) {
		s := newSpy(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("asks for %q", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, told)
			z.Close()
		})
		r := newRig(t, llm.Options{Providers: []llm.Provider{s.provider("spy")}}, nil)
		a := r.postWith(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, false), "Accept-Encoding", "gzip")
		if a.status != 200 || a.body != told || a.header.Get("Content-Encoding") != "" {
			t.Errorf("%d %v %q", a.status, a.header, a.body)
		}
		if attempts, _ := r.observed(1); attempts[0].Usage.Input != 7 || attempts[0].Usage.Output != 3 {
			t.Errorf("%+v", attempts[0])
		}
	})
	t.Run("an answer that sends the client elsewhere", func(t *testing.T) {
		s := newSpy(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://internal.invalid/?key=x", http.StatusTemporaryRedirect)
		})
		r := newRig(t, llm.Options{MaxAttempts: 1, Providers: []llm.Provider{s.provider("spy")}}, nil)
		if a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, false)); a.status != 502 || strings.Contains(fmt.Sprint(a), "internal.invalid") {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	})
	t.Run("an answer's header is the client's business or nobody's", func(t *testing.T) {
		s := newSpy(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, v := range map[string]string{"Set-Cookie": "a=b", "Connection": "X-Hop", "X-Hop": "x", "X-Request-Id": "r", "Content-Type": "application/json"} {
				w.Header().Set(name, v)
			}
			io.WriteString(w, told)
		})
		r := newRig(t, llm.Options{Providers: []llm.Provider{s.provider("spy")}}, nil)
		a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, false))
		if a.header.Get("Set-Cookie") != "" || a.header.Get("X-Hop") != "" || a.header.Get("X-Request-Id") != "r" {
			t.Errorf("%v", a.header)
		}
	})
}

// raw sends bytes over a connection of their own and returns the beginning of the answer.
func (r *rig) raw(request string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, request)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil && line == "" {
		return err.Error()
	}
	return line
}

func TestDoor(t *testing.T) {
	perIP := func(id, kind string, n int64) sluice.Rule {
		return sluice.Rule{ID: id, GroupBy: []sluice.Dimension{sluice.IP}, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}},
			Limits: []sluice.Limit{{Limit: limit.Bucket(n, limit.Hour, n)}}}
	}
	known := llm.Options{Identify: func(_ *http.Request, credential string) (llm.Caller, error) {
		if credential == "good" {
			return llm.Caller{Subject: "a", Tenant: "a", Own: true}, nil
		}
		return llm.Caller{}, errors.New("no such key")
	}}
	with := func(r *rig, credential string) answer {
		return r.postWith(t.Context(), "/v1/chat/completions", chatBody("m", 10, false), "Authorization", "Bearer "+credential)
	}
	t.Run("bad keys are counted, and then a good one is not looked at either", func(t *testing.T) {
		r := newRig(t, known, nil, perIP("failures", llm.KindFailure, 3))
		for i, want := range []int{401, 401, 401, 429} {
			if a := with(r, fmt.Sprint("bad", i)); a.status != want {
				t.Errorf("%d. bad key: %d %s", i, a.status, a.body)
			}
		}
		if a := with(r, "good"); a.status != 429 {
			t.Errorf("the good key: %d", a.status)
		}
		if n := r.mocks["openai"].Requests(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
	t.Run("nothing shown is no guess", func(t *testing.T) {
		r := newRig(t, known, nil, perIP("failures", llm.KindFailure, 3))
		for range 5 {
			if a := r.chat("m", 10, false); a.status != 401 {
				t.Errorf("%d", a.status)
			}
		}
		if a := with(r, "good"); a.status != 200 {
			t.Errorf("the good key: %d", a.status)
		}
	})
	t.Run("D9 an address is bounded before its key is looked at", func(t *testing.T) {
		r := newRig(t, known, nil, perIP("preauth", llm.KindPreAuth, 2))
		for i, want := range []int{401, 401, 429} {
			if a := with(r, "bad"); a.status != want {
				t.Errorf("%d. request: %d", i, a.status)
			}
		}
		if _, answers := r.observed(3); answers[2].Refused != sluice.ReasonRate {
			t.Errorf("%+v", answers[2])
		}
	})
	t.Run("a site is bounded too", func(t *testing.T) {
		o := known
		o.Address = func(*http.Request) (ip, site string) { return "ip:2001:db8::/64", "ip:2001:db8::/48" }
		r := newRig(t, o, nil, perIP("site", llm.KindPreAuthSite, 1))
		if a, b := with(r, "good").status, with(r, "good").status; a != 200 || b != 429 {
			t.Errorf("%d, then %d", a, b)
		}
	})
	t.Run("no key is told before the body is asked for", func(t *testing.T) {
		r := newRig(t, known, nil)
		if got := r.raw("POST /v1/messages HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"); !strings.Contains(got, " 401 ") {
			t.Errorf("%s", got)
		}
	})
}

// A broken is a transport that panics.
type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { panic("broken") }

func TestPanic(t *testing.T) {
	r := newRig(t, llm.Options{Base: broken{}}, nil, rule("openai", "openai", slots(1), tokens(1000)), rule("tenant", "", slots(1)))
	for range 2 {
		if a := r.chat("m", 100, false); a.err == nil {
			t.Fatalf("%d", a.status)
		}
	}
	r.eventually("nothing is held", func() bool { return len(r.control.Held()) == 0 })
	if left := r.left("openai", "tpm", attempt("openai")); left != 1000 {
		t.Errorf("%d left", left)
	}
	if len(r.gateway.Flights()) != 0 {
		t.Error("it is still under way")
	}
}

func TestSlowBeginning(t *testing.T) {
	more := make(chan struct{})
	s := newSpy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": thinking\n\n")
		http.NewResponseController(w).Flush()
		<-more
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	r := newRig(t, llm.Options{PreambleTime: 20 * time.Millisecond, Providers: []llm.Provider{s.provider("spy")}}, nil)
	res, err := http.Post(r.url+"/spy/v1/chat/completions", "application/json", strings.NewReader(chatBody("m", 10, true)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if line, err := in.ReadString('\n'); line != ": thinking\n" {
		t.Errorf("%q %v", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(in); err != nil || !strings.HasSuffix(string(rest), "[DONE]\n\n") {
		t.Errorf("%q %v", rest, err)
	}
}
