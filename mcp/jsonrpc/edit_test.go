package jsonrpc

import "testing"

func TestEdit(t *testing.T) {
	const frame = `{ "jsonrpc":"2.0","z":1.0, "id" : 9007199254740993 ,"method":"tools/call","params":{"name":"t" , "arguments":{"n":1e400,"s":"\ud800"},"_meta":{"progressToken":7,"a":1}} }`
	for _, c := range []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"M-030 nothing", nil, frame},
		{"M-030 the id", []Edit{SetID(StringID("brk-1"))},
			`{ "jsonrpc":"2.0","z":1.0, "id" : "brk-1" ,"method":"tools/call","params":{"name":"t" , "arguments":{"n":1e400,"s":"\ud800"},"_meta":{"progressToken":7,"a":1}} }`},
		{"a value, and a new one last", []Edit{Set([]byte(`"p"`), "params", "_meta", "progressToken"), Set([]byte("2"), "params", "_meta", "b")},
			`{ "jsonrpc":"2.0","z":1.0, "id" : 9007199254740993 ,"method":"tools/call","params":{"name":"t" , "arguments":{"n":1e400,"s":"\ud800"},"_meta":{"progressToken":"p","a":1,"b":2}} }`},
		{"the first member goes", []Edit{Delete("jsonrpc")},
			`{ "z":1.0, "id" : 9007199254740993 ,"method":"tools/call","params":{"name":"t" , "arguments":{"n":1e400,"s":"\ud800"},"_meta":{"progressToken":7,"a":1}} }`},
		{"one in the middle and the last go", []Edit{Delete("z"), Delete("params")},
			`{ "jsonrpc":"2.0", "id" : 9007199254740993 ,"method":"tools/call" }`},
		{"all go", []Edit{Delete("params"), Delete("method"), Delete("id"), Delete("z"), Delete("jsonrpc")}, `{   }`},
		{"what goes comes back", []Edit{Delete("params"), Set([]byte("1"), "params", "x")},
			`{ "jsonrpc":"2.0","z":1.0, "id" : 9007199254740993 ,"method":"tools/call","params":{"x":1} }`},
		{"what comes goes again", []Edit{Set([]byte("1"), "params", "x"), Set([]byte("1"), "y"), Delete("params"), Delete("y")},
			`{ "jsonrpc":"2.0","z":1.0, "id" : 9007199254740993 ,"method":"tools/call" }`},
		{"the later of two", []Edit{Set([]byte("1"), "z"), SetID(StringID("a")), Set([]byte("2"), "z")},
			`{ "jsonrpc":"2.0","z":2, "id" : "a" ,"method":"tools/call","params":{"name":"t" , "arguments":{"n":1e400,"s":"\ud800"},"_meta":{"progressToken":7,"a":1}} }`},
		{"into a value that was just set", []Edit{Set([]byte(`{"q":[ ]}`), "params"), Set([]byte("3"), "params", "r"), Delete("params", "q")},
			`{ "jsonrpc":"2.0","z":1.0, "id" : 9007199254740993 ,"method":"tools/call","params":{"r":3} }`},
		{"objects on the way", []Edit{Set([]byte("3"), "z", "a\"b", "c"), Set([]byte("4"), "z", "a\"b", "d"), Delete("z", "e")},
			`{ "jsonrpc":"2.0","z":{"a\"b":{"c":3,"d":4}}, "id" : 9007199254740993 ,"method":"tools/call","params":{"name":"t" , "arguments":{"n":1e400,"s":"\ud800"},"_meta":{"progressToken":7,"a":1}} }`},
		{"what is not there cannot go", []Edit{Delete("nothing"), Delete("z", "nothing"), Delete("params", "nothing", "more")}, frame},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustParse(t, frame)
			got := m.Edit(c.edits...)
			if string(got.Raw) != c.want {
				t.Errorf("got  %s\nwant %s", got.Raw, c.want)
			}
			if string(m.Raw) != frame {
				t.Errorf("the message itself is now %s", m.Raw)
			}
			for name, field := range map[string][]byte{"id": got.ID.Raw(), "params": got.Params, "result": got.Result, "error": got.Err} {
				if want, _ := Lookup(got.Raw, name); string(field) != string(want) {
					t.Errorf("member %s is %s, the message says %s", name, want, field)
				}
			}
		})
	}
}
