package jsonrpc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mustParse returns the message of a frame that is one.
func mustParse(t testing.TB, frame string) *Message {
	t.Helper()
	m, err := Parse([]byte(frame), Bounds{})
	if err != nil {
		t.Fatalf("%s: %v", frame, err)
	}
	return m
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		want        Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			Message{Kind: Request, ID: RawID(json.RawMessage("1")), Method: "tools/list"}},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
			Message{Kind: Notification, Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":1}`)}},
		{"result", `{"jsonrpc":"2.0","id":"a","result":{"ok":true}}`,
			Message{Kind: Response, ID: StringID("a"), Result: json.RawMessage(`{"ok":true}`)}},
		{"a result that is no object", `{"jsonrpc":"2.0","id":"a","result":null}`,
			Message{Kind: Response, ID: StringID("a"), Result: json.RawMessage(`null`)}},
		{"error", `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"x"}}`,
			Message{Kind: Response, ID: RawID(json.RawMessage("2")), Err: json.RawMessage(`{"code":-32601,"message":"x"}`)}},
		{"error whose frame was not read", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
			Message{Kind: Response, ID: RawID(json.RawMessage("null")), Err: json.RawMessage(`{"code":-32700,"message":"x"}`)}},
		{"error without an id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`,
			Message{Kind: Response, Err: json.RawMessage(`{"code":-32700,"message":"x"}`)}},
		{"order, space and unknown members", " \t{ \"x\":[1,{}] ,\r\n\"method\" : \"m\", \"id\" : 7 , \"jsonrpc\":\"2.0\" }\n",
			Message{Kind: Request, ID: RawID(json.RawMessage("7")), Method: "m"}},
		{"names spelt with escapes are the names they spell", `{"jsonrpc":"2.0","\u0069d":1,"metho\u0064":"tools\/c\u0061ll"}`,
			Message{Kind: Request, ID: RawID(json.RawMessage("1")), Method: "tools/call"}},
		{"batch", ` [{"jsonrpc":"2.0","id":1,"method":"a"}] `, Message{Kind: Batch}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustParse(t, c.frame)
			if string(m.Raw) != strings.TrimSpace(c.frame) {
				t.Errorf("the frame is %q", m.Raw)
			}
			if m.Kind != c.want.Kind || m.ID != c.want.ID || m.Method != c.want.Method ||
				string(m.Params) != string(c.want.Params) || string(m.Result) != string(c.want.Result) || string(m.Err) != string(c.want.Err) {
				t.Errorf("got %v %v %q %s %s %s", m.Kind, m.ID, m.Method, m.Params, m.Result, m.Err)
			}
		})
	}
}

// call returns a frame with that text where a tools/call has its id.
func call(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t"}}`
}

func TestParseRefuses(t *testing.T) {
	const parse, request = ParseError, InvalidRequest
	for _, c := range []struct {
		name, frame string
		code        int64
		id          string // of the answer
	}{
		{"empty", "", parse, "null"},
		{"only space", " \n", parse, "null"},
		{"text", "hello", parse, "null"},
		{"a frame cut off", `{"jsonrpc":"2.0","id":1,"method":"a"`, parse, "null"},
		{"something after the frame", call("1") + "{}", parse, "null"},
		{"a zero byte after the frame", call("1") + "\x00", parse, "null"},
		{"a byte order mark", "\xef\xbb\xbf" + call("1"), parse, "null"},
		{"a comma too many", `{"jsonrpc":"2.0","id":1,"method":"a",}`, parse, "null"},
		{"a comma too many in an array", `[1,]`, parse, "null"},
		{"a comma too few", `{"jsonrpc":"2.0" "id":1}`, parse, "null"},
		{"a colon too few", `{"jsonrpc" "2.0"}`, parse, "null"},
		{"a name without quotes", `{jsonrpc:"2.0"}`, parse, "null"},
		{"a control character in a string", "{\"a\":\"\n\"}", parse, "null"},
		{"an escape that is none", `{"a":"\x"}`, parse, "null"},
		{"an escape cut off", `{"a":"\u12"}`, parse, "null"},
		{"a frame that ends in an escape", `{"a":"\u123`, parse, "null"},
		{"a number with a leading zero", call("01"), parse, "null"},
		{"a number without digits", call("-"), parse, "null"},
		{"a fraction without digits", call("1."), parse, "null"},
		{"an exponent without digits", call("1e+"), parse, "null"},
		{"a word that is none", call("nul"), parse, "null"},
		{"M-032 invalid UTF-8 in a value", "{\"a\":\"\xff\"}", parse, "null"},
		{"M-032 half of a character", "{\"a\":\"\xc3\"}", parse, "null"},
		{"M-032 a surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", parse, "null"},
		{"M-032 invalid UTF-8 in a name", "{\"\xff\":1}", parse, "null"},
		{"a number", "1", request, "null"},
		{"null", "null", request, "null"},
		{"an empty object", "{}", request, "null"},
		{"an empty batch", " [ ] ", request, "null"},
		{"no version", `{"id":1,"method":"a"}`, request, "1"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"a"}`, request, "1"},
		{"a version that is a number", `{"jsonrpc":2.0,"id":1,"method":"a"}`, request, "1"},
		{"no method, no result", `{"jsonrpc":"2.0","id":1}`, request, "1"},
		{"M-029 a name in capitals", `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call"}`, request, "1"},
		{"M-029 a name in capitals is no second one", `{"jsonrpc":"2.0","ID":1,"id":2,"Result":{}}`, request, "2"},
		{"M-024 id null", call("null"), request, "null"},
		{"M-023 an id with a fraction", call("1.5"), request, "null"},
		{"M-023 an id with a fraction by its exponent", call("15e-1"), request, "null"},
		{"M-023 an id with a fraction behind zeros", call("100.55e1"), request, "null"},
		{"M-023 an id whose exponent takes one zero too many", call("100e-3"), request, "null"},
		{"M-023 an id too small to be whole", call("1e-99999999999999999999"), request, "null"},
		{"M-026 id true", call("true"), request, "null"},
		{"M-026 id {}", call("{}"), request, "null"},
		{"M-026 id []", call("[]"), request, "null"},
		{"an id that is a table's burden", call(`"` + strings.Repeat("a", MaxIDBytes) + `"`), request, "null"},
		{"a method that is a number", `{"jsonrpc":"2.0","id":1,"method":1}`, request, "1"},
		{"a method without a letter", `{"jsonrpc":"2.0","id":1,"method":""}`, request, "1"},
		{"a method that is a table's burden", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("a", MaxIDBytes) + `"}`, request, "1"},
		{"params in an array", `{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`, request, "1"},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, request, "1"},
		{"a method and a result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, request, "1"},
		{"a result and an error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, request, "1"},
		{"a result without an id", `{"jsonrpc":"2.0","result":{}}`, request, "null"},
		{"a result with id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, request, "null"},
		{"an error that is a text", `{"jsonrpc":"2.0","id":1,"error":"broken"}`, request, "1"},
		{"an error with an id of another type", `{"jsonrpc":"2.0","id":false,"error":{}}`, request, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse(slices.Clip([]byte(c.frame)), Bounds{}) // so that reading on is a panic
			if err == nil {
				t.Fatalf("it is %v %s", m.Kind, m.Raw)
			}
			if err.Code != c.code {
				t.Errorf("the error is %v, want code %d", err, c.code)
			}
			answer := mustParse(t, string(err.Frame()))
			if answer.ID.String() != c.id || answer.Fault().Code != c.code || answer.Fault().Message != err.Message {
				t.Errorf("the answer is %s, want id %s", answer.Raw, c.id)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []string{
		"0", "-0", "1", "-7", "9007199254740993", "123456789012345678901234567890", // M-022
		"1.0", "1.50e1", "1e3", "1E+400", "0.0", "0e-5", "0.000e-9999999999999999999", "120e-1", "1e9223372036854775807", "1.5e99999999999999999999", // M-023
		`""`, `"1"`, `"a\u0062\/"`, `"\ud800"`, `"größe"`,
	} {
		t.Run("M-022 M-023 M-025 "+id, func(t *testing.T) {
			m := mustParse(t, call(id))
			if m.ID.String() != id || string(m.ID.Raw()) != id {
				t.Errorf("the id is %s", m.ID)
			}
			const upstream = `{"jsonrpc":"2.0","id":"brk-1","result":{}}`
			if got := mustParse(t, upstream).Edit(SetID(m.ID)); string(got.Raw) != `{"jsonrpc":"2.0","id":`+id+`,"result":{}}` || got.ID != m.ID {
				t.Errorf("the answer is %s", got.Raw)
			}
			if got := NewResult(m.ID, nil); string(got.Raw) != `{"jsonrpc":"2.0","id":`+id+`,"result":{}}` {
				t.Errorf("our answer is %s", got.Raw)
			}
		})
	}
	t.Run("M-025 one and the text of one are two ids", func(t *testing.T) {
		pending := map[ID]bool{mustParse(t, call("1")).ID: true}
		if pending[mustParse(t, call(`"1"`)).ID] || !pending[mustParse(t, call("1")).ID] || StringID("1") == RawID(json.RawMessage("1")) {
			t.Error("they are the same")
		}
	})
	t.Run("none and null", func(t *testing.T) {
		none, null := ID{}, RawID(json.RawMessage("null"))
		if !none.IsZero() || none.IsNull() || none.Raw() != nil || null.IsZero() || !null.IsNull() || none.Valid() || null.Valid() {
			t.Error("they are mixed up")
		}
	})
}

func TestNamesThatStandTwice(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		id          string // of the answer; empty if the frame is good
	}{
		{"M-028 in the envelope", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, "1"},
		{"M-028 the id", `{"jsonrpc":"2.0","id":1,"method":"a","id":2}`, "null"},
		{"M-028 a member nobody knows", `{"jsonrpc":"2.0","id":1,"method":"a","x":1,"x":1}`, "1"},
		{"M-028 spelt with an escape", `{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}`, "1"},
		{"M-028 spelt with a pair of surrogates", `{"jsonrpc":"2.0","id":1,"method":"a","😀":1,"\ud83d\ude00":1}`, "1"},
		{"M-028 in params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","name":"danger"}}`, "1"},
		{"M-028 in params of an odd spelling", `{"jsonrpc":"2.0","id":1,"method":"tools/call","p\u0061rams":{"name":"safe","n\u0061me":"danger"}}`, "1"},
		{"M-028 in _meta", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.cyanmycelium/caller":1,"io.cyanmycelium\/caller":2}}}`, "1"},
		{"M-028 in arguments", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"path":"/tmp","path":"/etc"}}}`, "1"},
		{"M-028 the empty name", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"":1,"":2}}}`, "1"},
		{"M-028 in a result", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","resultType":"complete"}}`, "1"},
		{"M-028 in a result's _meta", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"a":1,"a":1}}}`, "1"},
		{"M-028 in an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":""}}`, "1"},
		{"deeper in arguments they are the tool's affair", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"x":{"a":1,"a":2}},"y":{"a":1,"a":2}}}`, ""},
		{"in capitals they are others", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"a","Name":"b","NAME":"c"}}`, ""},
		{"in two objects they are two", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"id":1,"method":2,"_meta":{"id":3}}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.frame), Bounds{})
			if c.id == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Code != InvalidRequest || mustParse(t, string(err.Frame())).ID.String() != c.id {
				t.Errorf("the error is %v, want id %s", err, c.id)
			}
		})
	}
	t.Run("M-028 among very many", func(t *testing.T) {
		var b strings.Builder
		for i := range 9_000 {
			fmt.Fprintf(&b, `"argument-%d":1,`, i)
		}
		frame := `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{` + b.String() + `"x":1}}}`
		mustParse(t, frame)
		if _, err := Parse([]byte(strings.Replace(frame, `"x":1`, `"\u0061rgument-4500":2`, 1)), Bounds{}); err == nil {
			t.Error("it was not found")
		}
	})
}

func TestBounds(t *testing.T) {
	nested := func(levels int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"a","params":` + strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels) + "}"
	}
	sized := func(n int) string {
		start, end := `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":"`, `"}}`
		return start + strings.Repeat("x", n-len(start)-len(end)) + end
	}
	wide := func(name string, members int) string {
		b := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"a",%q:{"a":0`, name)
		for i := range members - 1 {
			b = fmt.Appendf(b, `,"%d":0`, i)
		}
		return string(append(b, "}}"...))
	}
	for _, c := range []struct {
		name, frame string
		bounds      Bounds
		code        int64 // zero if it is taken
	}{
		{"as large as may be", call("1"), Bounds{MaxBytes: len(call("1"))}, 0},
		{"a byte more", call("1"), Bounds{MaxBytes: len(call("1")) - 1}, InvalidRequest},
		{"four MiB", sized(4 << 20), Bounds{}, 0},
		{"four MiB and a byte", sized(4<<20 + 1), Bounds{}, InvalidRequest},
		{"as deep as may be", nested(127), Bounds{}, 0},
		{"an object too deep", nested(128), Bounds{}, InvalidRequest},
		{"as deep as is said", nested(2), Bounds{MaxDepth: 3}, 0},
		{"deeper than is said", nested(3), Bounds{MaxDepth: 3}, InvalidRequest},
		{"arrays without an end", strings.Repeat("[", 4<<20), Bounds{}, InvalidRequest},
		{"objects without an end", strings.Repeat(`{"a":`, 800_000), Bounds{}, InvalidRequest},
		{"deep, then not JSON", nested(128) + "}", Bounds{}, InvalidRequest},
		{"M-028 as many names as are compared", wide("params", maxMembers), Bounds{}, 0},
		{"M-028 a name more", wide("params", maxMembers+1), Bounds{}, InvalidRequest},
		{"M-028 of arguments", `{"jsonrpc":"2.0","id":1,"method":"a","params":` + wide("arguments", maxMembers+1) + "}", Bounds{}, InvalidRequest},
		{"more names where none are compared", `{"jsonrpc":"2.0","id":1,"method":"a","params":` + wide("other", 2*maxMembers) + "}", Bounds{}, 0},
		{"wide is not deep", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":[` + strings.Repeat("[[]],", 10_000) + `1]}}`, Bounds{MaxDepth: 5}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.frame), c.bounds)
			if c.code == 0 && err != nil || c.code != 0 && (err == nil || err.Code != c.code || !err.ID.IsZero()) {
				t.Errorf("the error is %v, want code %d", err, c.code)
			}
		})
	}
}

// TestParseIsLinear reads and edits frames of which one that looks at its bytes again and
// again would not see the end.
func TestParseIsLinear(t *testing.T) {
	names := []byte(`"a":0`)
	for i := range maxMembers - 16 {
		names = fmt.Appendf(names, `,"%06d":0`, i)
	}
	const size = 16 << 20
	for name, members := range map[string]string{
		"escapes": `"a":"` + strings.Repeat(`\u0061`, size/6) + `"`,
		"quotes":  `"a":"` + strings.Repeat(`\"`, size/2) + `"`,
		"letters": `"a":"` + strings.Repeat("a", size) + `"`,
		"arrays":  `"a":[` + strings.Repeat("[],", size/3) + `0]`,
		"names":   string(names),
	} {
		m, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{`+members+`}}`), Bounds{MaxBytes: 64 << 20})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m.Edit(SetID(StringID("x")), Set([]byte("1"), "params", "_meta", "progressToken"))
	}
}

func TestBatch(t *testing.T) {
	items := func(frame string) (all []string) {
		for m, err := range mustParse(t, frame).Items(Bounds{}) {
			if err != nil {
				all = append(all, string(err.Frame()))
			} else {
				all = append(all, m.Kind.String()+" "+string(m.Raw))
			}
		}
		return all
	}
	for _, c := range []struct {
		name, frame string
		want        []string
	}{
		{"each by itself", ` [ {"jsonrpc":"2.0","id":1,"method":"a"} ,{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"result":{}}]`, []string{
			`request {"jsonrpc":"2.0","id":1,"method":"a"}`, `notification {"jsonrpc":"2.0","method":"n"}`, `response {"jsonrpc":"2.0","id":2,"result":{}}`,
		}},
		{"what is none", `[1,{"jsonrpc":"2.0","id":2,"method":"a","method":"b"},[{"jsonrpc":"2.0","id":1,"method":"a"}]]`, []string{
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: a frame is an object"}}`,
			`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"Invalid request: the name of a member stands twice"}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: a batch is no item of a batch"}}`,
		}},
		{"a message has none", call("1"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := items(c.frame); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	t.Run("it can be left early", func(t *testing.T) {
		n := 0
		for range mustParse(t, "["+strings.Repeat("1,", 1_000_000)+"1]").Items(Bounds{}) {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d items", n)
		}
	})
}
