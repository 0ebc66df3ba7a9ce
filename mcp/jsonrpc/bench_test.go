package jsonrpc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// plainMessage is how encoding/json would read a frame, without any of the checks.
type plainMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

const smallFrame = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"Seattle, WA","days":3},"_meta":{"progressToken":17}}}`

// frames are of the kinds that decide how long reading takes.
func frames() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	blob := make([]byte, 3<<20)
	for i := range blob {
		blob[i] = byte(r.Uint32())
	}
	numbers := make([]string, 500_000)
	for i := range numbers {
		numbers[i] = fmt.Sprint(r.IntN(1_000_000))
	}
	members := make([]string, 100_000)
	for i := range members {
		members[i] = fmt.Sprintf(`"name-%d":{"v":%d}`, i, i)
	}
	in := func(value string) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":%s},"_meta":{"progressToken":1}}}`, value)
	}
	return map[string][]byte{
		"small":   []byte(smallFrame),
		"base64":  in(`"` + base64.StdEncoding.EncodeToString(blob) + `"`),
		"numbers": in("[" + strings.Join(numbers, ",") + "]"),
		"objects": in("{" + strings.Join(members, ",") + "}"),
		"text":    in(`"` + strings.Repeat(`größe \"x\" `, 200_000) + `"`),
	}
}

func BenchmarkParse(b *testing.B) {
	for name, frame := range frames() {
		b.Run(name+"/jsonrpc", func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(frame, Bounds{MaxBytes: 8 << 20}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				var m plainMessage
				if err := json.Unmarshal(frame, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	for name, frame := range frames() {
		m, err := Parse(frame, Bounds{MaxBytes: 8 << 20})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			id, token := StringID("brk-5c1b-1"), json.RawMessage(`"brk-5c1b-1"`)
			for b.Loop() {
				n := m.Edit(SetID(id), Set(token, "params", "_meta", "progressToken"))
				if !bytes.Contains(n.Raw[:60], []byte("brk")) {
					b.Fatal(string(n.Raw))
				}
			}
		})
	}
}
