package schema

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// texts are JSON, and close to it.
var texts = []string{
	`{"a":[1,-2.5e+10,0.1,{"b":null}],"c":true,"d":false,"e":"x"}`, ` [ ] `, `{ }`, `"\ud83d\ude00 \ud800 \n\u0000é\"\\"`, "\"\xff\"", "\"a\nb\"",
	`[1,]`, `{"a":1,}`, `{"a" 1}`, `{1:2}`, `01`, `-`, `1.`, `1e`, `+1`, `.5`, `1 2`, `truefalse`, `nul`, `[[[[]]]]`, `{"a":{"a":{"a":[]}}}`, `"\x"`, `"\`, `"`, ``, "\x00", "[\x00]", "\u00a01",
}

// TestReadIsEncodingJSON compares with encoding/json, on texts and on what chance makes of them.
func TestReadIsEncodingJSON(t *testing.T) {
	const seed = 149
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 200_000 {
		raw := []byte(texts[i%len(texts)])
		for range min(i/len(texts), 1) * r.IntN(4) {
			switch at := r.IntN(len(raw) + 1); r.IntN(3) {
			case 0:
				raw = append(raw[:at:at], append([]byte{`{}[]",:\0-1e.tn u`[r.IntN(17)]}, raw[at:]...)...)
			case 1:
				raw = append(raw[:at:at], raw[min(at+1, len(raw)):]...)
			default:
				other := texts[r.IntN(len(texts))]
				raw = append(raw[:at:at], other[r.IntN(len(other)+1):]...)
			}
		}
		want, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		got, fault := argumentBounds.read(raw)
		switch {
		case fault == twice:
			if err == nil && members(want) == bytes.Count(raw, []byte(`:`)) {
				t.Fatalf("seed %d: %q has no member twice", seed, raw)
			}
		case fault != "" && fault != noJSON: // a number that is too long
		case (fault == "") != (err == nil) || fault == "" && !reflect.DeepEqual(got, want):
			t.Fatalf("seed %d: %q is %#v %q, encoding/json says %#v %v", seed, raw, got, fault, want, err)
		}
	}
}

// members counts those of a value.
func members(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, x := range v {
			n += members(x)
		}
	case []any:
		for _, x := range v {
			n += members(x)
		}
	}
	return n
}

func BenchmarkRead(b *testing.B) {
	text, _ := json.Marshal(map[string]any{"path": "/a", "content": string(bytes.Repeat([]byte("what is written "), 1250)), "list": []int{1, 2, 3}})
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, fault := argumentBounds.read(text); fault != "" {
				b.Fatal(fault)
			}
		}
	})
	b.Run("floor: encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
