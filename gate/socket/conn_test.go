package socket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// wireFrame makes a frame as a client sends it, or a server.
func wireFrame(first byte, payload string, masked bool) []byte {
	b := []byte{first, 0}
	switch n := len(payload); {
	case n < 126:
		b[1] = byte(n)
	case n < 1<<16:
		b[1] = 126
		b = append(b, byte(n>>8), byte(n))
	default:
		b[1] = 127
		b = append(b, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	if masked {
		b[1] |= 0x80
		b = append(b, 1, 2, 3, 4)
	}
	return append(b, payload...)
}

func text(payload string) []byte { return wireFrame(0x81, payload, true) }

// pipe returns a watched connection and the client's end of it. What the client sends
// arrives in the given pieces; what it gets is collected.
func pipe(t *testing.T, o Options, sent [][]byte) (*Conn, <-chan []byte) {
	t.Helper()
	server, client := net.Pipe()
	if o.End == nil {
		o.End = func() {}
	}
	if o.Judge == nil {
		o.Judge = func(Frame) Verdict { return Pass }
	}
	c := New(server, o)
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(client)
		got <- b
	}()
	go func() {
		for _, piece := range sent {
			client.Write(piece)
		}
		if sent != nil {
			client.Close()
		}
	}()
	t.Cleanup(func() { c.Close(); client.Close() })
	return c, got
}

// pieces cuts b into parts of random length.
func pieces(r *rand.Rand, b []byte) (all [][]byte) {
	for len(b) > 0 {
		n := 1 + r.IntN(min(len(b), 1+r.IntN(40)))
		all, b = append(all, b[:n]), b[n:]
	}
	return all
}

func TestReadPassesEverythingOn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var sent []byte
		for range 1 + r.IntN(5) {
			sent = append(sent, text(strings.Repeat("x", []int{0, 5, 125, 126, 300, 70_000}[r.IntN(6)]))...)
			sent = append(sent, wireFrame(0x89, "ping", true)...)
		}
		early := r.IntN(len(sent))
		c, _ := pipe(t, Options{Early: sent[:early]}, append(pieces(r, sent[early:]), nil))
		var got []byte
		for buf := make([]byte, 1+r.IntN(100)); ; {
			n, err := c.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
		}
		if !bytes.Equal(got, sent) {
			t.Fatalf("sent %d bytes, %d came", len(sent), len(got))
		}
	}
}

func TestJudge(t *testing.T) {
	type seen struct {
		payload uint64
		first   bool
	}
	var frames []seen
	sent := bytes.Join([][]byte{
		text("one"), wireFrame(0x01, "tw", true), wireFrame(0x89, "ping", true), wireFrame(0x80, "o", true),
		wireFrame(0x82, strings.Repeat("x", 200), true), wireFrame(0x88, "\x03\xe8", true),
	}, nil)
	c, _ := pipe(t, Options{Judge: func(f Frame) Verdict {
		frames = append(frames, seen{f.Payload, f.First()})
		return Pass
	}}, [][]byte{sent})
	io.ReadAll(c)
	want := []seen{{3, true}, {2, true}, {1, false}, {200, true}}
	if len(frames) != len(want) {
		t.Fatalf("got %v, want %v", frames, want)
	}
	for i := range want {
		if frames[i] != want[i] {
			t.Errorf("frame %d: got %v, want %v", i, frames[i], want[i])
		}
	}
}

func TestDrop(t *testing.T) {
	drop := func(f Frame) Verdict {
		if f.Payload == 4 {
			return Drop
		}
		return Pass
	}
	ping := wireFrame(0x89, "ping", true)
	for _, c := range []struct {
		name       string
		sent, want [][]byte
	}{
		{"a message", [][]byte{text("one"), text("drop"), text("two")}, [][]byte{text("one"), text("two")}},
		{"all frames of a message, and no ping among them",
			[][]byte{wireFrame(0x01, "drop", true), ping, wireFrame(0x00, "rest", true), wireFrame(0x80, "x", true), text("two")},
			[][]byte{ping, text("two")}},
		{"a compressed message ends the conversation, for the next may refer to it",
			[][]byte{text("one"), wireFrame(0xc1, "drop", true), text("two")},
			[][]byte{text("one"), closeFrame(Policy, "", true)}},
		{"the rest of a message that has begun ends it, too",
			[][]byte{wireFrame(0x01, "a", true), wireFrame(0x80, "drop", true), text("two")},
			[][]byte{wireFrame(0x01, "a", true), closeFrame(Policy, "", true)}},
	} {
		t.Run("I-112 "+c.name, func(t *testing.T) {
			sent := bytes.Join(c.sent, nil)
			for _, size := range []int{1, 2, 7, len(sent)} {
				var parts [][]byte
				for rest := sent; len(rest) > 0; rest = rest[min(size, len(rest)):] {
					parts = append(parts, rest[:min(size, len(rest))])
				}
				conn, _ := pipe(t, Options{Judge: drop}, parts)
				got, err := io.ReadAll(conn)
				if want := bytes.Join(c.want, nil); !bytes.Equal(got, want) || err != nil {
					t.Errorf("in pieces of %d: got %q, %v; want %q", size, got, err, want)
				}
			}
		})
	}
}

func TestGoodbye(t *testing.T) {
	response := []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
	server := func(payload string) []byte { return wireFrame(0x81, payload, false) }
	bye := closeFrame(GoingAway, "bye", false)
	for _, c := range []struct {
		name          string
		before, after [][]byte // what the server writes before and after the end is asked for
		want          [][]byte
		lost          bool // the server is told that nothing more is sent
	}{
		{"between two frames it comes at once", [][]byte{response, server("a")}, nil, [][]byte{response, server("a"), bye}, false},
		{"within a frame it waits for its end", [][]byte{response, server("abcdef")[:4]}, [][]byte{server("abcdef")[4:]},
			[][]byte{response, server("abcdef"), bye}, false},
		{"and cuts off what follows", [][]byte{response, server("abcdef")[:1]}, [][]byte{append(server("abcdef")[1:], server("never")...)},
			[][]byte{response, server("abcdef"), bye}, true},
		{"it waits for the response, too", [][]byte{response[:20]}, [][]byte{response[20:]}, [][]byte{response, bye}, false},
		{"nothing follows it", [][]byte{response}, [][]byte{server("never")}, [][]byte{response, bye}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, got := pipe(t, Options{}, nil)
			write := func(parts [][]byte) (err error) {
				for _, p := range parts {
					if _, e := conn.Write(p); e != nil {
						err = e
					}
				}
				return err
			}
			if err := write(c.before); err != nil {
				t.Fatal(err)
			}
			conn.Expire(GoingAway, "bye")
			conn.Expire(Policy, "twice") // the first counts
			if err := write(c.after); errors.Is(err, net.ErrClosed) != c.lost {
				t.Errorf("the server was told %v", err)
			}
			conn.Close()
			if b, want := <-got, bytes.Join(c.want, nil); !bytes.Equal(b, want) {
				t.Errorf("got %q, want %q", b, want)
			}
		})
	}
	t.Run("a client that does not read cannot hold it up", func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		conn := New(a, Options{Responded: true, Judge: func(Frame) Verdict { return Pass }, End: func() {}})
		wrote := make(chan error, 1)
		go func() {
			_, err := conn.Write(server("nobody reads this"))
			wrote <- err
		}()
		began := time.Now()
		conn.Expire(GoingAway, "")
		if d := time.Since(began); d > 3*goodbyeWait || <-wrote == nil {
			t.Errorf("it took %v", d)
		}
	})
}

func TestCloseEndsOnce(t *testing.T) {
	ended := 0
	c, _ := pipe(t, Options{End: func() { ended++ }}, nil)
	c.Close()
	c.Close()
	if ended != 1 {
		t.Errorf("ended %d times", ended)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(text("a"), 3)
	f.Add([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5}, 1)
	f.Fuzz(func(t *testing.T, sent []byte, size int) {
		size = 1 + (size&0x7fffffff)%64
		server, client := net.Pipe()
		defer server.Close()
		go func() {
			client.Write(sent)
			client.Close()
		}()
		c := New(server, Options{Judge: func(Frame) Verdict { return Pass }, End: func() {}})
		var got []byte
		for buf := make([]byte, size); ; {
			n, err := c.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
		}
		// All comes through but a header that never became complete.
		if !bytes.HasPrefix(sent, got) || len(sent)-len(got) >= maxFrameHeader {
			t.Errorf("sent %x, got %x", sent, got)
		}
	})
}
