package cost

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	rpc := Options{Extractor: JSONRPC, Pointer: "/arguments/calls", Class: "/tool"}
	for _, c := range []struct {
		name       string
		o          Options
		body       string
		revision   string
		calls      int64
		capability string
		err        error
	}{
		{"nothing is looked at", Options{}, "x", "", 1, "", nil},
		{"zero is zero", Options{Calls: new(int64(0))}, "x", "", 0, "", nil},
		{"an empty body costs the least", Options{Calls: new(int64(3)), Extractor: JSONArray}, "", "", 3, "", nil},
		{"I-057 elements", Options{Extractor: JSONArray}, "[1,[2,3],{}]", "", 3, "", nil},
		{"an empty array costs the least", Options{Extractor: JSONArray}, " []", "", 1, "", nil},
		{"the most", Options{Extractor: JSONArray, Max: 2}, "[1,2,3]", "", 2, "", nil},
		{"an array inside", Options{Extractor: JSONArray, Pointer: "/a~1b/0/c"}, `{"a/b":[{"c":[1,2]}]}`, "", 2, "", nil},
		{"no array inside", Options{Extractor: JSONArray, Pointer: "/a"}, `{}`, "", 1, "", nil},
		{"a value inside", Options{Extractor: JSONArray, Pointer: "/a/b"}, `{"a":7}`, "", 1, "", nil},
		{"not an array", Options{Extractor: JSONArray}, `{}`, "", 0, "", ErrMalformed},
		{"not JSON", Options{Extractor: JSONArray}, `[1,`, "", 0, "", ErrMalformed},
		{"one name twice", Options{Extractor: JSONArray, Pointer: "/a"}, `{"a":[1],"a":[1,2,3]}`, "", 0, "", ErrMalformed},

		{"a call", rpc, `{"method":"tools/call","params":{"name":"search"}}`, "", 1, "search", nil},
		{"a method", rpc, `{"method":"tools/list"}`, "", 1, "tools/list", nil},
		{"I-061 a ping", rpc, `{"method":"ping"}`, "", 0, "ping", nil},
		{"an answer", rpc, `{"id":1,"result":{}}`, "", 0, "", nil},
		{"I-060 a batch", rpc, `[{"method":"a"},{"method":"a"},{"method":"ping"}]`, "2025-03-26", 3 - 1, "a", nil},
		{"I-060 a batch that is no longer", rpc, `[{"method":"a"}]`, "2025-06-18", 0, "", ErrBatch},
		{"I-129 calls inside", rpc, `{"method":"tools/call","params":{"name":"batch","arguments":{"calls":[{"tool":"s"},{"tool":"s"},{"tool":"c"}]}}}`, "", 3, "s", nil},
		{"none inside", rpc, `{"method":"tools/call","params":{"name":"batch","arguments":{"calls":[]}}}`, "", 1, "batch", nil},
		{"the dearest names the call", Options{Extractor: JSONRPC, Methods: map[string]int64{"dear": 10}}, `[{"method":"cheap"},{"method":"cheap"},{"method":"dear"}]`, "", 12, "dear", nil},
		{"weights replace the housekeeping", Options{Extractor: JSONRPC, Methods: map[string]int64{}}, `{"method":"ping"}`, "", 1, "ping", nil},
		{"a method twice", rpc, `{"method":"ping","method":"tools/call"}`, "", 0, "", ErrMalformed},
		{"another spelling is no method", rpc, `{"Method":"tools/call"}`, "", 0, "", nil},
		{"a method that is no text", rpc, `{"method":1}`, "", 0, "", ErrMalformed},
		{"a tool without a name", rpc, `{"method":"tools/call","params":{}}`, "", 0, "", ErrMalformed},
		{"a list that holds no messages", rpc, `[1]`, "", 0, "", ErrMalformed},

		{"a document", Options{Extractor: GraphQL}, `{"query":"{ a b c: a }"}`, "", 3, "", nil},
		{"fragments are followed", Options{Extractor: GraphQL}, `{"query":"{ ...F ... on Q { c } } fragment F on Q { a b ...G } fragment G on Q { d }"}`, "", 4, "", nil},
		{"a fragment of itself ends", Options{Extractor: GraphQL}, `{"query":"{ ...F } fragment F on Q { a ...F }"}`, "", 1, "", nil},
		{"the largest operation", Options{Extractor: GraphQL}, `{"query":"query A { a } query B { a b }","operationName":"A"}`, "", 2, "", nil},
		{"a list of documents", Options{Extractor: GraphQL}, `[{"query":"{ a b }"},{"query":"{ a }"}]`, "", 3, "", nil},
		{"a stored document", Options{Extractor: GraphQL}, `{"extensions":{}}`, "", 1, "", nil},
		{"no document", Options{Extractor: GraphQL}, `{"query":"{ a "}`, "", 0, "", ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.o.Of([]byte(c.body), c.revision)
			if !errors.Is(err, c.err) || err == nil && (got.Calls != c.calls || got.Capability != c.capability) {
				t.Errorf("got %+v, %v; want %d %q, %v", got, err, c.calls, c.capability, c.err)
			}
		})
	}
	t.Run("fragments that double each other cost no exponential time", func(t *testing.T) {
		var b strings.Builder
		b.WriteString(`{"query":"{ ...F0 }`)
		for i := range 60 {
			n, m := string(rune('A'+i%26))+strings.Repeat("x", i/26), string(rune('A'+(i+1)%26))+strings.Repeat("x", (i+1)/26)
			if i == 0 {
				n = "F0"
			}
			b.WriteString(" fragment " + n + " on Q { ..." + m + " ..." + m + " }")
		}
		b.WriteString(` fragment Ixx on Q { a }"}`)
		got, err := (&Options{Extractor: GraphQL, Max: 5000}).Of([]byte(b.String()), "")
		if err != nil || got.Calls != 5000 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestCheck(t *testing.T) {
	for _, o := range []Options{
		{Calls: new(int64(-1))}, {Max: -1}, {Inspect: -1}, {Extractor: GraphQL + 1}, {Pointer: "/a"}, {Extractor: JSONArray, Pointer: "a"},
		{Extractor: JSONArray, Pointer: "/a", Class: "/b"}, {Extractor: JSONRPC, Class: "/b"},
	} {
		if o.Check() == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if err := (&Options{Extractor: JSONRPC, Pointer: "/a", Class: "/b"}).Check(); err != nil {
		t.Error(err)
	}
}

func TestCount(t *testing.T) {
	read := func(r *http.Request) string {
		t.Helper()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	post := func(body string, known bool) *http.Request {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		if !known {
			r.ContentLength = -1
		}
		return r
	}
	long := "[" + strings.Repeat("1,", 100) + "1]"
	for _, known := range []bool{true, false} {
		o := Options{Extractor: JSONArray, Inspect: 50}
		r := post("[1,2]", known)
		if c, err := o.Count(r); err != nil || c.Calls != 2 || read(r) != "[1,2]" {
			t.Errorf("short, known %v: got %+v, %v", known, c, err)
		}
		r = post(long, known)
		if c, err := o.Count(r); err != nil || c.Calls != 1000 || read(r) != long {
			t.Errorf("long, known %v: got %+v, %v", known, c, err)
		}
		o.RefuseOversize = true
		if _, err := o.Count(post(long, known)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("long and refused, known %v: got %v", known, err)
		}
	}
	t.Run("nobody can count inside an unknown coding", func(t *testing.T) {
		r := post("[1]", true)
		r.Header.Set("Content-Encoding", "br")
		if c, err := (&Options{Extractor: JSONArray, Max: 7}).Count(r); err != nil || c.Calls != 7 {
			t.Errorf("got %+v, %v", c, err)
		}
	})
	t.Run("a document in the query counts, and one in the body beside it", func(t *testing.T) {
		o := Options{Extractor: GraphQL}
		r := httptest.NewRequest("GET", "/?query=%7Ba+b%7D", nil)
		if c, err := o.Count(r); err != nil || c.Calls != 2 {
			t.Errorf("got %+v, %v", c, err)
		}
		r = httptest.NewRequest("POST", "/?query=%7Ba+b%7D", strings.NewReader(`{"query":"{ a b c }"}`))
		if c, err := o.Count(r); err != nil || c.Calls != 5 {
			t.Errorf("got %+v, %v", c, err)
		}
	})
	t.Run("a body that breaks off is an error", func(t *testing.T) {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("[1"), broken{}))
		if _, err := (&Options{Extractor: JSONArray}).Count(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func FuzzOf(f *testing.F) {
	for _, body := range []string{"[1]", `{"method":"a"}`, `{"query":"{a}"}`, `[{"method":"tools/call","params":{"name":"x"}}]`} {
		f.Add([]byte(body), uint8(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, extractor uint8) {
		o := Options{Extractor: Extractor(extractor % 4), Pointer: "", Max: 100}
		if c, err := o.Of(body, ""); err == nil && (c.Calls < 0 || c.Calls > 100) {
			t.Errorf("%q costs %d", body, c.Calls)
		}
	})
}
