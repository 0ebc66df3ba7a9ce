package httplink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicegate/sluice/mcp/link"
)

// all reads a stream to its end, and says what was in it.
func all(r io.Reader, limit int, at *cursor) string {
	var b strings.Builder
	for list := newEvents(r, limit, at); ; {
		ev, err := list.next()
		if long, ok := errors.AsType[*link.TooLong](err); ok {
			fmt.Fprintf(&b, "[too long %s]", long.Glance.ID())
			continue
		}
		if err != nil {
			return b.String()
		}
		fmt.Fprintf(&b, "[%s:%s]", ev.name, ev.data)
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		at               cursor
	}{
		{"one event", "data: {}\n\n", "[:{}]", cursor{}},
		{"M-066 comments and empty events come first", ": hello\n\n\n:\nevent: message\n\ndata\n\ndata:\n\ndata: 1\n\n", "[:1]", cursor{}},
		{"M-066 a byte order mark", "\xef\xbb\xbfdata: 1\n\n", "[:1]", cursor{}},
		{"M-066 CRLF, and CR alone", "data: 1\r\n\r\ndata: 2\r\rdata: 3\n\r\n", "[:1][:2][:3]", cursor{}},
		{"M-066 data of several lines", "data: {\ndata:  \"a\":1\ndata: }\n\n", "[:{\n \"a\":1\n}]", cursor{}},
		{"M-066 unknown fields and events", "foo: bar\nevent: ping\ndata: 1\n\nevent: endpoint\ndata: /x?a=1\n\n", "[ping:1][endpoint:/x?a=1]", cursor{}},
		{"one space after the colon belongs to it", "data:1\n\ndata:  2\n\n", "[:1][: 2]", cursor{}},
		{"where it can be resumed", "id: 7\nretry: 250\ndata: 1\n\nid: 8\n", "[:1]", cursor{"7", 250 * time.Millisecond}},
		{"an event without data moves on, and priming needs no data", "id: a_0\ndata:\n\n", "", cursor{"a_0", 0}},
		{"an empty id cannot be resumed", "id: 7\ndata: 1\n\nid\ndata: 2\n\n", "[:1][:2]", cursor{}},
		{"an id that cannot be sent back is none", "id: 7\n\nid: a\x00b\n\nid: a\tb\n\n", "", cursor{"7", 0}},
		{"no number is no time", "retry: -1\nretry: 1e3\nretry: 99999999999999999999\n\n", "", cursor{}},
		{"a long time is bounded", "retry: 2147483647\n\n", "", cursor{"", time.Hour}},
		{"an event that is cut off is none", "data: 1\n\ndata: 2\n", "[:1]", cursor{}},
		{"M-074 too much data", "data: {\"id\":7,\"result\":\"" + strings.Repeat("x", 200) + "\"}\n\ndata: 1\n\n", "[too long 7][:1]", cursor{}},
		{"M-074 too many lines of data", "data: {\"id\":7,\n" + strings.Repeat("data: "+strings.Repeat(" ", 30)+"\n", 5) + "data: \"result\":1}\n\ndata: 1\n\n", "[too long 7][:1]", cursor{}},
		{"a comment may be of any length", ":" + strings.Repeat("x", 5000) + "\ndata: 1\n\n", "[:1]", cursor{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{
				"at once": strings.NewReader(c.text),
				"by byte": iotest.OneByteReader(strings.NewReader(c.text)),
			} {
				var at cursor
				if got := all(r, 100, &at); got != c.want || at != c.at {
					t.Errorf("%s: got %q at %+v, want %q at %+v", kind, got, at, c.want, c.at)
				}
			}
		})
	}
}

// TestEventIsNotHeldBack shows that an event is handed out at the first byte that ends it,
// also where a CR might be followed by an LF.
func TestEventIsNotHeldBack(t *testing.T) {
	for _, text := range []string{"data: 1\n\n", "data: 1\r\n\r", "data: 1\r\r"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, text) }()
		if ev, err := newEvents(r, 100, &cursor{}).next(); err != nil || string(ev.data) != "1" {
			t.Errorf("%q: got %q, %v", text, ev.data, err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: 1\r\nevent: x\rdata: {\"id\":1}\ndata\n\n: c\nretry: 5\n\n"), byte(20))
	f.Add([]byte("\xef\xbb\xbfdata:data\n\n"), byte(1))
	f.Fuzz(func(t *testing.T, text []byte, limit byte) {
		var a, b cursor
		whole, pieces := all(bytes.NewReader(text), int(limit), &a), all(iotest.OneByteReader(bytes.NewReader(text)), int(limit), &b)
		if whole != pieces || a != b {
			t.Errorf("at once %q %+v, by bytes %q %+v", whole, a, pieces, b)
		}
		// The same by the book, for data that fits: lines first, then fields.
		if len(text) <= int(limit) {
			if want := byTheBook(string(text)); whole != want {
				t.Errorf("got %q, want %q", whole, want)
			}
		}
	})
}

// byTheBook reads a stream as the standard describes it, all at once.
func byTheBook(text string) string {
	var b strings.Builder
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var name, data string
	for _, line := range lines[:len(lines)-1] {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data = strings.TrimSuffix(data, "\n"); data != "" {
				fmt.Fprintf(&b, "[%s:%s]", name, data)
			}
			name, data = "", ""
		case field == "event":
			name = value
		case field == "data":
			data += value + "\n"
		}
	}
	return b.String()
}
