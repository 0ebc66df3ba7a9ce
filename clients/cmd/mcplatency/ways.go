package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// A way is a session at a server, over some transport. It carries many calls at once.
type way interface {
	// ask sends a request and returns its answer. The id is that of the frame.
	ask(id int, frame string) (answer []byte, err error)
	// tell sends a notification.
	tell(frame string) error
}

const (
	version = "2025-06-18"
	hello   = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"latency","version":"1"}}}`
	ready   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// open opens a session, and waits for the server to be there.
func open(connect func() (way, error)) (way, error) {
	var failed error
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		w, err := connect()
		if err == nil {
			if _, err = w.ask(0, hello); err == nil {
				if _, err = call(w, 1, 1); err == nil { // what is behind it is there, too
					return w, w.tell(ready)
				}
			}
		}
		failed = err
	}
	return nil, failed
}

// call calls a tool with so many bytes, and returns how long it took.
func call(w way, id, size int) (time.Duration, error) {
	frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, id, strings.Repeat("x", size))
	began := time.Now()
	answer, err := w.ask(id, frame)
	took := time.Since(began)
	if err == nil && !bytes.Contains(answer, []byte(`"result"`)) {
		err = fmt.Errorf("call %d: %.300s", id, answer)
	}
	return took, err
}

// burst makes n calls of so many callers, and returns how long each took. All have to be
// answered with a result.
func burst(w way, n, callers, size int) ([]time.Duration, error) {
	times, failed := make([]time.Duration, n), make([]error, callers)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < n && failed[caller] == nil; i += callers {
				times[i], failed[caller] = call(w, i+1, size)
			}
		})
	}
	all.Wait()
	return times, errors.Join(failed...)
}

// A posted way is Streamable HTTP.
type posted struct {
	client  *http.Client
	url     string
	session string
}

func overHTTP(url string) (way, error) {
	return &posted{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}, url: url}, nil
}

func (p *posted) ask(_ int, frame string) ([]byte, error) {
	r, err := http.NewRequest(http.MethodPost, p.url, strings.NewReader(frame))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		r.Header.Set("Mcp-Session-Id", p.session)
		r.Header.Set("MCP-Protocol-Version", version)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if s := answer.Header.Get("Mcp-Session-Id"); s != "" {
		p.session = s // initialize is alone
	}
	return io.ReadAll(answer.Body)
}

func (p *posted) tell(frame string) error {
	_, err := p.ask(0, frame)
	return err
}

// A shared way has all answers on one stream.
type shared struct {
	mcptest.Wire

	mu      sync.Mutex
	waiting map[string]chan []byte
	down    error
}

// share reads what comes over a wire.
func share(w mcptest.Wire, err error) (way, error) {
	if err != nil {
		return nil, err
	}
	s := &shared{Wire: w, waiting: map[string]chan []byte{}}
	go s.read()
	return s, nil
}

func (s *shared) read() {
	for {
		raw, err := s.Next()
		if err != nil {
			s.end(err)
			return
		}
		f, err := mcptest.ReadFrame(raw)
		if err != nil {
			s.end(err)
			return
		}
		s.mu.Lock()
		answer := s.waiting[string(f.ID)]
		delete(s.waiting, string(f.ID))
		s.mu.Unlock()
		if answer != nil {
			answer <- bytes.Clone(raw)
		}
	}
}

func (s *shared) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
	for _, answer := range s.waiting {
		close(answer)
	}
	clear(s.waiting)
}

func (s *shared) ask(id int, frame string) ([]byte, error) {
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.waiting[fmt.Sprint(id)] = answer
	err := s.down
	s.mu.Unlock()
	if err == nil {
		err = s.tell(frame)
	}
	if err != nil {
		return nil, err
	}
	if raw, ok := <-answer; ok {
		return raw, nil
	}
	return nil, errors.New("the connection has ended before the answer came")
}

func (s *shared) tell(frame string) error { return s.Send([]byte(frame)) }

func overSocket(url string) (way, error) {
	return share(mcptest.Dial(context.Background(), url, nil))
}

// overStdio starts the command with some words and speaks with it.
func (p *place) overStdio(words ...string) func() (way, error) {
	return func() (way, error) {
		cmd := exec.Command(p.sluice, words...)
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		return share(mcptest.Pipe(out, in), p.start(cmd))
	}
}

// An events wire is HTTP with server-sent events, as in 2024-11-05.
type events struct {
	client *http.Client
	post   string
	stream io.Closer
	in     *bufio.Reader
}

func overSSE(at string) (way, error) {
	e := &events{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	r, err := e.client.Get(at)
	if err != nil {
		return nil, err
	}
	e.stream, e.in = r.Body, bufio.NewReader(r.Body)
	endpoint, err := e.Next() // the first event
	if err == nil {
		var base *url.URL
		if base, err = url.Parse(at); err == nil {
			base, err = base.Parse(string(endpoint))
			e.post = fmt.Sprint(base)
		}
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return share(e, nil)
}

// Send implements mcptest.Wire.
func (e *events) Send(frames ...[]byte) error {
	for _, f := range frames {
		r, err := e.client.Post(e.post, "application/json", bytes.NewReader(f))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return err
		}
		if r.StatusCode != http.StatusAccepted {
			return errors.New(r.Status)
		}
	}
	return nil
}

// Next implements mcptest.Wire. Each event is one line of data here.
func (e *events) Next() ([]byte, error) {
	for {
		line, err := e.in.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			return bytes.TrimSpace(data), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Close implements mcptest.Wire.
func (e *events) Close() error { return e.stream.Close() }
