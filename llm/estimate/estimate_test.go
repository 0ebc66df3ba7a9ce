package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

var acme = estimate.Key{Tenant: "acme", Model: "m"}

// read reads a body as the gateway does.
func read(t testing.TB, path, body string) *dialect.Request {
	t.Helper()
	q, err := dialect.Read(dialect.Find("POST", path, ""), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// ids is a request of which n tokens are counted.
func ids(n int64) *dialect.Request {
	return &dialect.Request{Parts: []dialect.Part{{Kind: dialect.IDs, N: n}}}
}

func TestInput(t *testing.T) {
	tool := `{"type":"function","function":{"name":"find_%02d","description":"Looks for what the user has described, in the shelf with this number, and returns at most ten titles.","parameters":{"type":"object","properties":{"shelf":{"type":"integer","minimum":1},"words":{"type":"string","description":"Words of the title, as the user has written them"},"limit":{"type":"integer","maximum":10,"default":3},"language":{"type":"string","enum":["en","de","fr"]}},"required":["shelf","words"]}}}`
	tools := make([]string, 40)
	for i := range tools {
		tools[i] = fmt.Sprintf(tool, i)
	}
	list := "[" + strings.Join(tools, ",") + "]"
	prose := strings.Repeat("He walked to the end of the pier. ", 12) // 408 characters, 9 tokens a sentence
	for _, c := range []struct {
		name, path, body string
		least, most      int64
	}{
		{"L-004 input in place of messages", "/v1/responses", `{"model":"m","input":"` + prose + `","max_output_tokens":50}`, 100, 120},
		{"L-004 input as a list", "/v1/responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"` + prose + `"}]}]}`, 105, 130},
		{"L-004 an earlier response, and no text", "/v1/responses", `{"model":"m","previous_response_id":"resp_1"}`, 1, 1},
		{"L-004 a stored prompt, and no text", "/v1/responses", `{"model":"m","prompt":{"id":"pmpt_1"}}`, 1, 1},
		{"L-005 no messages", "/v1/chat/completions", `{"model":"m","messages":[]}`, 1, 1},
		{"L-005 nothing at all", "/v1/chat/completions", `{}`, 1, 1},
		{"L-125 40 tools", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":` + list + `}`, int64(len(list)) / 5, int64(len(list)) / 3},
		{"L-126 digits and line ends", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(`1\n`, 30_000) + `"}]}`, 42_000, 78_000},
		{"tokens that were counted", "/v1/embeddings", `{"model":"m","input":[[1,2,3],[4,5]]}`, 5, 5},
		{"sound", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`, 1000, 1010},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := estimate.New(estimate.Options{}).Input(acme, read(t, c.path, c.body))
			if in.Counted < c.least || in.Counted > c.most {
				t.Errorf("Counted is %d, want %d to %d", in.Counted, c.least, c.most)
			}
			if in.Tokens != in.Counted || in.Reserve < in.Tokens || float64(in.Reserve) > 1.5*float64(in.Counted) {
				t.Errorf("before anything is learned, %+v", in)
			}
		})
	}
}

func TestFilesAreConfiguredAndLearned(t *testing.T) {
	q := read(t, "/v1/responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`)
	const frame = 7
	if in := estimate.New(estimate.Options{}).Input(acme, q); in.Counted != 3000+frame {
		t.Errorf("L-129 a file counts %d, want 3000 and its frame", in.Counted)
	}
	e := estimate.New(estimate.Options{FileTokens: 10_000})
	if in := e.Input(acme, q); in.Counted != 10_000+frame {
		t.Errorf("L-129 a file counts %d, want what is configured and its frame", in.Counted)
	}
	for range 10 {
		e.Learn(acme, e.Input(acme, q), 4000, 10)
	}
	if in := e.Input(acme, q); in.Tokens < 3990 || in.Tokens > 4010 {
		t.Errorf("L-129 after ten files of 4000 tokens, one is expected to have %d", in.Tokens)
	}
}

func TestCorrection(t *testing.T) {
	t.Run("is learned for each tenant and model", func(t *testing.T) {
		e := estimate.New(estimate.Options{})
		for range 30 {
			e.Learn(acme, e.Input(acme, ids(1000)), 1300, 0)
		}
		for _, c := range []struct {
			key  estimate.Key
			want int64
		}{{acme, 1300}, {estimate.Key{Tenant: "acme", Model: "n"}, 1000}, {estimate.Key{Tenant: "b", Model: "m"}, 1000},
			{estimate.Key{Tenant: "acmem"}, 1000}} {
			if in := e.Input(c.key, ids(1000)); in.Tokens != c.want {
				t.Errorf("%+v: %d tokens are expected, want %d", c.key, in.Tokens, c.want)
			}
		}
	})
	t.Run("the first answer counts", func(t *testing.T) {
		e := estimate.New(estimate.Options{})
		e.Learn(acme, e.Input(acme, ids(1000)), 2000, 0)
		if in := e.Input(acme, ids(500)); in.Tokens != 1000 {
			t.Errorf("%d tokens are expected, want 1000", in.Tokens)
		}
	})
	t.Run("follows a change", func(t *testing.T) {
		e := estimate.New(estimate.Options{})
		for range 1000 {
			e.Learn(acme, e.Input(acme, ids(1000)), 1000, 0)
		}
		for range 60 {
			e.Learn(acme, e.Input(acme, ids(1000)), 2000, 0)
		}
		if in := e.Input(acme, ids(1000)); in.Tokens < 1900 {
			t.Errorf("60 answers after the change, %d tokens are expected, want nearly 2000", in.Tokens)
		}
	})
	t.Run("is at most four times", func(t *testing.T) {
		for _, used := range []int64{1, 1 << 62} {
			e := estimate.New(estimate.Options{})
			for range 50 {
				e.Learn(acme, e.Input(acme, ids(1000)), used, 0)
			}
			if in := e.Input(acme, ids(1000)); in.Tokens < 246 || in.Reserve > 4056 {
				t.Errorf("after answers of %d: %+v", used, in)
			}
		}
	})
	t.Run("what is not known is not learned", func(t *testing.T) {
		e := estimate.New(estimate.Options{})
		e.Learn(acme, e.Input(acme, ids(1000)), -1, -1)
		e.Learn(acme, e.Input(acme, ids(1000)), 0, -1)
		if in := e.Input(acme, ids(1000)); in.Tokens != 1000 {
			t.Errorf("%d tokens are expected, want 1000", in.Tokens)
		}
		if n := e.Output(acme, -1); n != 1024 {
			t.Errorf("an output of %d is expected, want 1024", n)
		}
	})
	t.Run("reserve is wider where answers differ", func(t *testing.T) {
		steady, wild := estimate.New(estimate.Options{}), estimate.New(estimate.Options{})
		r := rand.New(rand.NewPCG(7, 7))
		for range 200 {
			steady.Learn(acme, steady.Input(acme, ids(1000)), 1000, 0)
			wild.Learn(acme, wild.Input(acme, ids(1000)), 700+r.Int64N(700), 0)
		}
		a, b := steady.Input(acme, ids(1000)), wild.Input(acme, ids(1000))
		if a.Reserve > 1010 || b.Reserve < 1150 || b.Reserve > 1500 {
			t.Errorf("1000 tokens reserve %d where answers agree, and %d where they are 700 to 1400", a.Reserve, b.Reserve)
		}
	})
}

func TestHiddenInput(t *testing.T) {
	hidden := read(t, "/v1/responses", `{"model":"m","previous_response_id":"resp_1","input":"go on"}`)
	if !hidden.Hidden {
		t.Fatal("the request is not seen to hide its input")
	}
	e := estimate.New(estimate.Options{})
	first := e.Input(acme, hidden)
	if first.Tokens > 20 {
		t.Errorf("before anything is learned, %d tokens are expected", first.Tokens)
	}
	for range 30 {
		e.Learn(acme, e.Input(acme, hidden), 8000, 100)
	}
	if in := e.Input(acme, hidden); in.Tokens < 7990 || in.Tokens > 8010 || in.Reserve < in.Tokens {
		t.Errorf("after 30 inputs of 8000 tokens, %+v", in)
	}
	if in := e.Input(acme, ids(1000)); in.Tokens != 1000 {
		t.Errorf("what is hidden has changed the estimate of what is not: %+v", in)
	}
	large := ids(50_000)
	large.Hidden = true
	if in := e.Input(acme, large); in.Tokens != 50_000 {
		t.Errorf("what is visible is more than what was hidden: %+v", in)
	}
}

func TestOutput(t *testing.T) {
	e := estimate.New(estimate.Options{})
	check := func(when string, asked, want int64) {
		t.Helper()
		if got := e.Output(acme, asked); got != want {
			t.Errorf("%s, an output of %d is expected, want %d", when, got, want)
		}
	}
	check("L-130 with no bound and nothing learned", -1, 1024)
	check("with a low bound", 100, 100)
	check("without output", 0, 0)
	check("with a high bound", 32_000, 1024)
	for range 5 {
		e.Learn(acme, estimate.Input{Counted: 1}, 1, 200)
	}
	check("after five short answers", -1, 1024)
	e.Learn(acme, estimate.Input{Counted: 1}, 1, 3000)
	check("after a long one", -1, 3000)
	for i := range int64(100) {
		e.Learn(acme, estimate.Input{Counted: 1}, 1, 1+i)
	}
	check("of the last 64, 37 to 100, nine of ten are below", -1, 94)
	check("with a bound that agents ask for", 32_000, 94)
	if got := e.Output(estimate.Key{Tenant: "b", Model: "m"}, -1); got != 1024 {
		t.Errorf("another tenant's output is expected to be %d, want 1024", got)
	}
}

func TestTheOldestKeyIsForgotten(t *testing.T) {
	e := estimate.New(estimate.Options{Keys: 3})
	key := func(i int) estimate.Key {
		return estimate.Key{Tenant: fmt.Sprint(i), Model: strings.Repeat("m", 1<<10)}
	}
	knows := func(i int) bool { return e.Input(key(i), ids(1000)).Tokens == 2000 }
	for i := range 3 {
		e.Learn(key(i), estimate.Input{Counted: 1000}, 2000, 0)
	}
	if !knows(0) { // and has used it now
		t.Error("a key is forgotten although there is room")
	}
	e.Learn(key(3), estimate.Input{Counted: 1000}, 2000, 0)
	for i, want := range []bool{true, false, true, true} {
		if got := knows(i); got != want {
			t.Errorf("key %d is known: %v, want %v", i, got, want)
		}
	}
	for i := range 1000 {
		knows(1000 + i) // asking takes no room
	}
	if !knows(3) {
		t.Error("a key is forgotten because others were asked for")
	}
}

// TestBoundsOfEstimates feeds an Estimator whatever a provider may say, and holds that what it
// estimates stays within its bounds.
func TestBoundsOfEstimates(t *testing.T) {
	const seed = 41
	r := rand.New(rand.NewPCG(seed, 0))
	figures := []int64{math.MinInt64, -1, 0, 1, 7, 1000, 1 << 40, math.MaxInt64}
	e := estimate.New(estimate.Options{Keys: 4, FileTokens: math.MaxInt64})
	for range 20_000 {
		key := estimate.Key{Tenant: fmt.Sprint(r.IntN(6)), Model: "m"}
		q := ids(figures[r.IntN(len(figures))])
		q.Hidden = r.IntN(3) == 0
		for range r.IntN(3) {
			q.Parts = append(q.Parts, dialect.Part{Kind: dialect.File})
		}
		in := e.Input(key, q)
		if in.Counted < 1 || in.Tokens < 1 || in.Reserve < in.Tokens || !in.Hidden && float64(in.Reserve) > 4.06*float64(in.Counted)+1 {
			t.Fatalf("seed %d: %+v", seed, in)
		}
		if n := e.Output(key, r.Int64N(100)-1); n < 0 {
			t.Fatalf("seed %d: an output of %d is expected", seed, n)
		}
		e.Learn(key, in, figures[r.IntN(len(figures))], figures[r.IntN(len(figures))])
	}
}

func TestConcurrentUse(t *testing.T) {
	e := estimate.New(estimate.Options{Keys: 5})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				key := estimate.Key{Tenant: fmt.Sprint((i + j) % 10), Model: "m"}
				in := e.Input(key, ids(1000))
				if in.Tokens != 1000 && in.Tokens != 1500 {
					t.Errorf("%d tokens are expected, want 1000 or 1500", in.Tokens)
				}
				e.Learn(key, in, 1500, 70)
				if n := e.Output(key, -1); n != 70 && n != 1024 {
					t.Errorf("an output of %d is expected, want 70 or 1024", n)
				}
			}
		})
	}
	wg.Wait()
}

func TestEstimatesTakeNoMemory(t *testing.T) {
	e := estimate.New(estimate.Options{})
	q := read(t, "/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why is the sky blue?"}]}`)
	e.Learn(acme, e.Input(acme, q), 30, 100)
	if n := testing.AllocsPerRun(100, func() {
		in := e.Input(acme, q)
		e.Learn(acme, in, 30, e.Output(acme, -1))
	}); n != 0 {
		t.Errorf("an estimate takes %v allocations, want none", n)
	}
}
