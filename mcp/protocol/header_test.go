package protocol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"unicode/utf8"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

func TestHeaderValues(t *testing.T) {
	for _, c := range []struct{ name, text, value string }{
		// The first five are the specification's examples.
		{"plain", "us-west1", "us-west1"},
		{"not ASCII", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{"blanks at the ends", " padded ", "=?base64?IHBhZGRlZCA=?="},
		{"a line break", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"what looks encoded", "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"M-056", "größe", "=?base64?Z3LDtsOfZQ==?="},
		{"empty", "", "=?base64??="},
		{"a tab inside", "a\tb", "a\tb"},
		{"half of the mark", "=?base64?x", "=?base64?x"},
		{"the other half", "x?=", "x?="},
		{"marks that share a letter", "=?base64?=", "=?base64?="},
		{"marks in capitals are text", "=?BASE64?eA==?=", "=?BASE64?eA==?="},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := EncodeHeader(c.text); got != c.value {
				t.Errorf("it is sent as %s", got)
			}
			if got, err := DecodeHeader(c.value); got != c.text || err != nil {
				t.Errorf("it is read as %q, %v", got, err)
			}
		})
	}
	for name, value := range map[string]string{
		"no base64":            "=?base64?%%%?=",
		"padding that lacks":   "=?base64?eA?=",
		"bits left over":       "=?base64?eB==?=",
		"another alphabet":     "=?base64?PT9iYXNlNjQ_bGl0ZXJhbD89?=",
		"no UTF-8":             "=?base64?//8=?=",
		"a line break in it":   "=?base64?eA\n==?=",
		"bytes of no ASCII":    "größe",
		"a control character":  "a\x00b",
		"the one that deletes": "a\x7fb",
		"two fields joined up": "a\r\nMcp-Method: b",
	} {
		if got, err := DecodeHeader(value); err == nil {
			t.Errorf("%s: %q is %q", name, value, got)
		}
	}
}

// FuzzHeaderValue sends texts through a real server.
func FuzzHeaderValue(f *testing.F) {
	for _, s := range []string{"", "a", " a", "a\t", "größe", "=?base64?eA==?=", "a\r\nb: c", "\x00", "\xff", "=?base64?=", "?="} {
		f.Add(s)
	}
	got := make(chan []string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Values(HeaderName) }))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.NewRequest(http.MethodPost, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(HeaderName, EncodeHeader(text))
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatalf("%q cannot be sent: %v", text, err)
		}
		res.Body.Close()
		values := <-got
		if len(values) != 1 {
			t.Fatalf("%q arrived as %q", text, values)
		}
		if back, err := DecodeHeader(values[0]); utf8.ValidString(text) && (back != text || err != nil) {
			t.Fatalf("%q came back as %q, %v", text, back, err)
		}
	})
}

func TestNameOf(t *testing.T) {
	for _, c := range []struct {
		method, params, want string
		ok                   bool
	}{
		{"tools/call", `{"name":"gr\u00f6\u00dfe","uri":"x"}`, "größe", true},
		{"prompts/get", `{"name":"p"}`, "p", true},
		{"resources/read", `{"name":"x","uri":"file:///a"}`, "file:///a", true},
		{"tasks/get", `{"taskId":"t"}`, "t", true},
		{"tasks/update", `{"taskId":"t"}`, "t", true},
		{"tasks/cancel", `{"taskId":"t"}`, "t", true},
		{"tools/call", `{"name":""}`, "", true},
		{"tools/call", `{"name":7}`, "", false},
		{"tools/call", `{"NAME":"x"}`, "", false},
		{"tools/list", `{"name":"x"}`, "", false},
		{"Tools/Call", `{"name":"x"}`, "", false},
	} {
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":`+c.params+`}`), jsonrpc.Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := NameOf(m); got != c.want || ok != c.ok {
			t.Errorf("M-057 %s %s: %q, %v", c.method, c.params, got, ok)
		}
	}
	if _, ok := NameOf(jsonrpc.NewRequest(jsonrpc.StringID("1"), "tools/call", nil)); ok {
		t.Error("without params there is no name")
	}
}
