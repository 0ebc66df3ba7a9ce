package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// An Ask is an HTTP request that goes over the wire as it is written here: spelling, order and
// repetition of headers, and every byte of the body. The zero value is an empty POST.
type Ask struct {
	Method string   // POST if empty
	Header []string // "Name: value"; Host, Content-Length, and Content-Type and Accept as MCP asks for are added where they are missing
	Bare   bool     // Content-Type and Accept are not added
	Body   string
}

// Modern returns the request with the headers of 2026-07-28. An empty name is left out.
func (a Ask) Modern(method, name string) Ask {
	a.Header = append(a.Header[:len(a.Header):len(a.Header)], "MCP-Protocol-Version: "+modern, "Mcp-Method: "+method)
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		name = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	if name != "" {
		a.Header = append(a.Header, "Mcp-Name: "+name)
	}
	return a
}

// Meta is the _meta that each request of 2026-07-28 has to have, as JSON, for CallTool.
const Meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// Send sends the request over a connection of its own. Cancelling the context closes it,
// also while the reply is read.
func (a Ask) Send(ctx context.Context, to string) (*Reply, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	r := &Reply{close: func() { stop(); conn.Close() }}
	if _, err = conn.Write(a.bytes(u)); err == nil {
		r.Response, err = http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: a.method()})
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("mcptest: %s: %w", to, err)
	}
	r.in = bufio.NewReader(r.Body)
	return r, nil
}

func (a Ask) method() string {
	if a.Method == "" {
		return http.MethodPost
	}
	return a.Method
}

func (a Ask) bytes(u *url.URL) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", a.method(), u.RequestURI())
	more := [][2]string{{"Host", u.Host}, {"Content-Length", strconv.Itoa(len(a.Body))}}
	if !a.Bare {
		more = append(more, [2]string{"Content-Type", "application/json"}, [2]string{"Accept", "application/json, text/event-stream"})
	}
	given := map[string]bool{}
	for _, h := range a.Header {
		name, _, _ := strings.Cut(h, ":")
		given[strings.ToLower(name)] = true
		b.WriteString(h + "\r\n")
	}
	for _, h := range more {
		if !given[strings.ToLower(h[0])] {
			b.WriteString(h[0] + ": " + h[1] + "\r\n")
		}
	}
	b.WriteString("\r\n" + a.Body)
	return b.Bytes()
}

// A Reply is the answer to an Ask, read as it comes. It is for one goroutine.
type Reply struct {
	*http.Response

	in    *bufio.Reader
	close func()
	over  bool
}

// Close closes the connection, whatever is still to come.
func (r *Reply) Close() { r.close() }

// event reads to the end of an event. ok is false for one without data, such as a comment.
func (r *Reply) event() (name, data string, ok bool, err error) {
	for {
		line, err := r.in.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if err != nil {
			return name, data, false, err
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			return name, data, ok && data != "", nil // one without data is none, says HTML 9.2.6
		case field == "event":
			name = value
		case field == "data" && ok:
			data += "\n" + value
		case field == "data":
			data, ok = value, true
		}
	}
}

// Next waits for the next frame: the data of an event, or the whole body where that is no
// event stream. io.EOF is the end.
func (r *Reply) Next() (*Frame, error) {
	_, data, err := r.NextEvent()
	if err != nil {
		return nil, err
	}
	return ReadFrame([]byte(data))
}

// NextEvent waits for the next event with data. Where the body is no event stream, the whole
// of it is one without a name; an empty body has none.
func (r *Reply) NextEvent() (name, data string, err error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		if r.over {
			return "", "", io.EOF
		}
		r.over = true
		text, err := io.ReadAll(r.in)
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			err = io.EOF
		}
		return "", string(text), err
	}
	for {
		name, data, ok, err := r.event()
		if err != nil || ok {
			return name, data, err
		}
	}
}

// Answer reads until the answer to a request, and returns it with the number of frames that
// came before it.
func (r *Reply) Answer() (answer *Frame, before int, err error) {
	for ; ; before++ {
		f, err := r.Next()
		if err != nil || f.Method == "" {
			return f, before, err
		}
	}
}
