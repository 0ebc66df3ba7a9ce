package jsonrpc

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestMake(t *testing.T) {
	type params struct {
		Text string `json:"text"`
	}
	id := StringID("brk-\"1\" <é>")
	for _, c := range []struct {
		name string
		got  *Message
		want string
	}{
		{"request", NewRequest(id, "ping", nil), `{"jsonrpc":"2.0","id":"brk-\"1\" <é>","method":"ping"}`},
		{"request with raw params", NewRequest(RawID(json.RawMessage("1.0")), "a\"b", json.RawMessage(`{ "n":1e400,"t":"<\ud800>" }`)),
			`{"jsonrpc":"2.0","id":1.0,"method":"a\"b","params":{ "n":1e400,"t":"<\ud800>" }}`},
		{"a text of backslashes", NewRequest(StringID(`\`), `a\b`, nil), `{"jsonrpc":"2.0","id":"\\","method":"a\\b"}`},
		{"a text of control characters", NewRequest(StringID("\x1f"), "a\n", nil), `{"jsonrpc":"2.0","id":"\u001f","method":"a\n"}`},
		{"notification", NewNotification("n", params{"<&>\u2028"}), `{"jsonrpc":"2.0","method":"n","params":{"text":"<&>\u2028"}}`},
		{"an empty result", NewResult(id, nil), `{"jsonrpc":"2.0","id":"brk-\"1\" <é>","result":{}}`},
		{"result", NewResult(id, map[string]any{"a": []int{1}}), `{"jsonrpc":"2.0","id":"brk-\"1\" <é>","result":{"a":[1]}}`},
		{"error", NewError(id, &Error{Code: -32029, Message: "no \"more\"", Data: json.RawMessage(`{"n":1.0}`)}),
			`{"jsonrpc":"2.0","id":"brk-\"1\" <é>","error":{"code":-32029,"message":"no \"more\"","data":{"n":1.0}}}`},
		{"M-024 error of a frame that was not read", NewError(ID{}, &Error{Code: ParseError, Message: "x"}),
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.ReplaceAll(c.want, "\u2028", `\u2028`) // encoding/json always escapes it
			if string(c.got.Raw) != want {
				t.Errorf("got  %s\nwant %s", c.got.Raw, want)
			}
			if read := mustParse(t, string(c.got.Raw)); !reflect.DeepEqual(read, c.got) {
				t.Errorf("it is read as %+v, not as %+v", read, c.got)
			}
		})
	}
	t.Run("what no frame can hold is the program's mistake", func(t *testing.T) {
		defer func() {
			if text, _ := recover().(string); !strings.HasPrefix(text, "jsonrpc: a func() cannot be written") {
				t.Errorf("the panic says %q", text)
			}
		}()
		NewRequest(id, "a", func() {})
	})
}

func TestFault(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		want        *Error
	}{
		{"whole", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"caf\u00e9","data":{"a":1.0}}}`,
			&Error{Code: -32042, Message: "café", Data: json.RawMessage(`{"a":1.0}`), ID: RawID(json.RawMessage("1"))}},
		{"what is missing or of another type is left zero", `{"jsonrpc":"2.0","error":{"code":"x","message":7}}`, &Error{}},
		{"a code that no integer holds", `{"jsonrpc":"2.0","error":{"code":1e400}}`, &Error{}},
		{"none", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mustParse(t, c.frame).Fault(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	if got := (&Error{Code: 1, Message: "m"}).Error(); got != "jsonrpc: error 1: m" {
		t.Errorf("the text is %q", got)
	}
}
