package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds are frames to start fuzzing from.
var seeds = []string{
	call("1"), call(`"a"`), call("1.0"), call("1.5"), call("null"), call("1e400"),
	`{"jsonrpc":"2.0","method":"n","params":{"_meta":{"a":1,"\u0061":2}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"x":"\ud800","y":"\ud83d\ude00"}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":[null,true,-0.0e-0]}}`,
	`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"":{"":0,"":0}}}}`,
	`[{"jsonrpc":"2.0","id":1,"method":"m"},[],1]`,
	"{\"a\":\"größe \xff\"}", ` {"a" : [ ] } `, "[[[[[[[[[[]]]]]]]]]]", "{}x", "\ufeff{}", "\"", "{\"a", "{\"a\":", "[,]", "\x00",
}

// FuzzParse compares the scanner with encoding/json, and the checks with a naive reading.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(checkParse)
}

// TestParseOfRandomFrames does what a fuzzer does, in the same way every time.
func TestParseOfRandomFrames(t *testing.T) {
	pieces := []string{"{", "}", "[", "]", ",", ":", `"`, "\\", `\u0061`, "1", "-", ".", "e", "0", "null", "true", " ", "\xff", "é", "\x00",
		`"id"`, `"method"`, `"params"`, `"_meta"`, `"arguments"`, `"result"`, `"error"`, `"jsonrpc":"2.0"`, `"p\u0061rams"`}
	r := rand.New(rand.NewPCG(3, 20))
	for range 50_000 {
		data := []byte(seeds[r.IntN(len(seeds))])
		for range r.IntN(4) {
			at := r.IntN(len(data) + 1)
			to := min(len(data), at+r.IntN(8))
			piece := pieces[r.IntN(len(pieces))]
			if r.IntN(3) == 0 { // say something twice
				piece = string(data[at:to]) + "," + string(data[at:to])
			}
			data = slices.Replace(data, at, to, []byte(piece)...)
		}
		checkParse(t, data)
	}
}

func checkParse(t *testing.T, data []byte) {
	const depth = 20
	m, err := Parse(bytes.Clone(data), Bounds{MaxDepth: depth})
	switch deep := nesting(data) > depth; {
	case !json.Valid(data) || !utf8.Valid(data):
		// Whichever fault comes first may be told.
		if err == nil || err.Code != ParseError && !deep {
			t.Fatalf("%q is no JSON: %v", data, err)
		}
	case deep:
		if err == nil || err.Code != InvalidRequest {
			t.Fatalf("%q is too deep: %v", data, err)
		}
	case (err == nil) != acceptable(t, data):
		t.Fatalf("%q: %v", data, err)
	case err != nil:
		if err.Code != InvalidRequest {
			t.Fatalf("%q is JSON: %v", data, err)
		}
	case !bytes.Equal(m.Raw, bytes.Trim(data, " \t\r\n")):
		t.Fatalf("%q became %q", data, m.Raw)
	case m.Kind != Batch:
		checkMessage(t, m)
	}
	if err != nil {
		if answer, bad := Parse(err.Frame(), Bounds{}); bad != nil || answer.Kind != Response || !answer.ID.IsNull() && !answer.ID.Valid() {
			t.Fatalf("%q is answered with %s: %v", data, err.Frame(), bad)
		}
	}
}

// acceptable says whether JSON is a message or a batch, read with encoding/json.
func acceptable(t *testing.T, data []byte) bool {
	t.Helper()
	var batch []json.RawMessage
	if json.Unmarshal(data, &batch) == nil && batch != nil {
		return len(batch) > 0
	}
	m := map[string]json.RawMessage{}
	if json.Unmarshal(data, &m) != nil || m == nil || repeated(t, data) {
		return false
	}
	version, result, fault, method := m["jsonrpc"], m["result"], m["error"], m["method"]
	if string(version) != `"2.0"` {
		return false
	}
	good := wholeOrText(m["id"])
	if method == nil {
		none := m["id"] == nil || string(m["id"]) == "null"
		return (result == nil) != (fault == nil) && (good || none && fault != nil) && (fault == nil || fault[0] == '{')
	}
	params := m["params"]
	return result == nil && fault == nil && (params == nil || params[0] == '{') && (m["id"] == nil || good) &&
		method[0] == '"' && string(method) != `""` && len(method) <= MaxIDBytes
}

// repeated reports whether a name stands twice where that would matter.
func repeated(t *testing.T, data []byte) bool {
	t.Helper()
	for _, path := range [][]string{{}, {"params"}, {"params", "_meta"}, {"params", "arguments"}, {"result"}, {"result", "_meta"}, {"error"}} {
		if raw, ok := Lookup(data, path...); ok {
			all := names(t, raw)
			slices.Sort(all)
			if len(slices.Compact(slices.Clone(all))) != len(all) {
				return true
			}
		}
	}
	return false
}

// wholeOrText says by arithmetic what ID.Valid says by looking at digits.
func wholeOrText(id json.RawMessage) bool {
	if len(id) == 0 || len(id) > MaxIDBytes {
		return false
	}
	if id[0] == '"' {
		return true
	}
	digits, exponent, _ := strings.Cut(strings.ToLower(string(id)), "e")
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return false
	}
	if r.Sign() == 0 {
		return true
	}
	if exponent == "" {
		return r.IsInt()
	}
	n, err := strconv.Atoi(exponent)
	if err != nil || n > MaxIDBytes || n < -MaxIDBytes { // more than an id has digits
		return exponent[0] != '-'
	}
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n, -n))), nil))
	if n < 0 {
		power.Inv(power)
	}
	return r.Mul(r, power).IsInt()
}

// checkMessage reads a message in the way of a provider, and says if that reads another.
func checkMessage(t *testing.T, m *Message) {
	t.Helper()
	last := map[string]json.RawMessage{}
	if err := json.Unmarshal(m.Raw, &last); err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string][]byte{"id": m.ID.Raw(), "params": m.Params, "result": m.Result, "error": m.Err} {
		if !bytes.Equal(last[name], field) {
			t.Fatalf("%s: %s is %s for us, %s for others", m.Raw, name, field, last[name])
		}
	}
	var method string
	if raw, ok := last["method"]; ok {
		if err := json.Unmarshal(raw, &method); err != nil {
			t.Fatal(err)
		}
	}
	if method != m.Method {
		t.Fatalf("%s: method is %q for us, %q for others", m.Raw, m.Method, method)
	}
	if same := m.Edit(); !bytes.Equal(same.Raw, m.Raw) || same.ID != m.ID || same.Kind != m.Kind {
		t.Fatalf("%s without edits became %s", m.Raw, same.Raw)
	}
	checkSetID(t, m)
}

// checkSetID says if another id changes anything but the id.
func checkSetID(t *testing.T, m *Message) {
	t.Helper()
	if m.Kind != Request {
		return
	}
	there := m.Edit(SetID(StringID("brk-1")))
	read, err := Parse(there.Raw, Bounds{})
	if err != nil || read.Kind != m.Kind || read.Method != m.Method || read.ID != StringID("brk-1") || !bytes.Equal(read.Params, m.Params) {
		t.Fatalf("%s became %s: %v", m.Raw, there.Raw, err)
	}
	if back := read.Edit(SetID(m.ID)); !bytes.Equal(back.Raw, m.Raw) || back.ID != m.ID {
		t.Fatalf("%s came back as %s", m.Raw, back.Raw)
	}
}

// names returns the names in an object as encoding/json reads them.
func names(t *testing.T, raw []byte) (all []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		all = append(all, name.(string))
	}
	return all
}

// nesting returns how deep objects and arrays are inside each other, in what may be no JSON.
func nesting(data []byte) (deepest int) {
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// FuzzWalk looks into what Parse has not seen: it may find anything, but must come back.
func FuzzWalk(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		Lookup(data, "params", "_meta", "a")
		Text(data)
		for name, value := range Members(data) {
			if _, ok := Lookup(data, name); !ok {
				t.Fatalf("%q: member %q is %q, but is not found", data, name, value)
			}
		}
		Filter(data, func(name string) bool { return name == "a" })
		set := SetIn(data, json.RawMessage("1"), "params", "a")
		if json.Valid(data) && !json.Valid(set) {
			t.Fatalf("%q became %q", data, set)
		}
		if gone := DeleteIn(set, "params", "a"); json.Valid(data) && !json.Valid(gone) {
			t.Fatalf("%q became %q", set, gone)
		}
	})
}

// FuzzEdit compares edits with the same edits of a tree of maps.
func FuzzEdit(f *testing.F) {
	for i := range uint64(50) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		raw := randomObject(r, 3)
		m := &Message{Raw: raw}
		var edits []Edit
		for range r.IntN(6) {
			edits = append(edits, randomEdit(r))
		}
		got := m.Edit(edits...)
		want := decode(t, raw)
		one := json.RawMessage(raw)
		for _, e := range edits {
			want = model(t, want, e, e.path)
			if e.value == nil {
				one = DeleteIn(one, e.path...)
			} else {
				one = SetIn(one, e.value, e.path...)
			}
		}
		if encode(t, decode(t, got.Raw)) != encode(t, want) || encode(t, decode(t, one)) != encode(t, want) {
			t.Fatalf("seed %d: %s with %s\nis   %s\nor   %s\nwant %s", seed, raw, describe(edits), got.Raw, one, encode(t, want))
		}
		for _, name := range []string{"id", "params", "result", "error"} {
			checkField(t, got, name)
		}
		path := randomEdit(r).path
		switch old, ok := Lookup(raw, path...); {
		case !ok && !bytes.Equal(DeleteIn(raw, path...), raw):
			t.Fatalf("seed %d: without %q, which was not there, %s is %s", seed, path, raw, DeleteIn(raw, path...))
		case ok:
			there := SetIn(raw, json.RawMessage(`"another"`), path...)
			if back := SetIn(there, old, path...); !bytes.Equal(back, raw) {
				t.Fatalf("seed %d: with %q set and set back %s is %s", seed, path, raw, back)
			}
		}
	})
}

func checkField(t *testing.T, m *Message, name string) {
	t.Helper()
	fields := map[string][]byte{"id": m.ID.Raw(), "params": m.Params, "result": m.Result, "error": m.Err}
	if raw, _ := Lookup(m.Raw, name); fields[name] != nil && !bytes.Equal(raw, fields[name]) {
		t.Fatalf("%s: %s is %s", m.Raw, name, fields[name])
	}
}

var someNames = []string{"id", "params", "a", "é", "b\"c", ""}

func randomEdit(r *rand.Rand) Edit {
	path := make([]string, 1+r.IntN(3))
	for i := range path {
		path[i] = someNames[r.IntN(len(someNames))]
	}
	if r.IntN(3) == 0 {
		return Delete(path...)
	}
	return Set(randomValue(r, 2), path...)
}

// randomObject returns an object with different names, some spelt with escapes, and space
// wherever there may be some.
func randomObject(r *rand.Rand, depth int) []byte {
	b := []byte("{")
	for i, n := range r.Perm(len(someNames))[:r.IntN(len(someNames))] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, space(r)...)
		name := strconv.QuoteToASCII(someNames[n])
		if r.IntN(2) == 0 {
			name = strings.Replace(name, "a", `\u0061`, 1)
		}
		b = append(b, name...)
		b = append(append(append(b, space(r)...), ':'), space(r)...)
		b = append(append(b, randomValue(r, depth)...), space(r)...)
	}
	return append(b, '}')
}

func space(r *rand.Rand) string { return []string{"", "", " ", "\n\t"}[r.IntN(4)] }

func randomValue(r *rand.Rand, depth int) []byte {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		return randomObject(r, depth-1)
	case n == 3:
		return []byte(`[{"a":"]}"}, 1e400]`)
	case n == 4:
		return []byte(`"\"}{,:\\"`)
	}
	return []byte([]string{"1.0", "9007199254740993", "true", "null"}[r.IntN(4)])
}

// model makes one edit of a tree.
func model(t *testing.T, tree any, e Edit, path []string) any {
	if len(path) == 0 {
		return decode(t, e.value)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		if e.value == nil {
			return tree
		}
		object = map[string]any{}
	}
	name := path[0]
	if e.value != nil || len(path) > 1 && object[name] != nil {
		object[name] = model(t, object[name], e, path[1:])
	} else if len(path) == 1 {
		delete(object, name)
	}
	return object
}

func decode(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("%s: more than one value", raw)
	}
	return v
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func describe(edits []Edit) string {
	all := make([]string, len(edits))
	for i, e := range edits {
		all[i] = fmt.Sprintf("%q=%s", e.path, e.value)
	}
	return strings.Join(slices.Clone(all), "; ")
}
