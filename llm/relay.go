package llm

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"sync"
	"time"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
	"github.com/sluicegate/sluice/upstream"
)

// A relay is the body of an answer on its way to the client. It reads what passes, keeps
// from the client what is not meant for it, and closes the exchange at the end.
type relay struct {
	a     *attempt
	body  io.ReadCloser
	route dialect.Route
	hides bool // usage was asked for in the client's stead

	mu       sync.Mutex
	more     sync.Cond // something was fetched
	fetching bool      // the beginning is being read in the background
	split    *dialect.Splitter
	abroad   *interpreter // nil if the answer is in the client's dialect
	meter    *dialect.Meter
	written  estimate.Counter // of what the client was sent
	framing  dialect.Framing
	out      []byte // for the client
	taken    int    // of out
	open     bool   // the last event that was passed on has not ended
	stage    dialect.Stage
	begun    bool   // some content has come: from here on nothing is tried again
	failure  []byte // the event that says that the provider has failed
	end      error  // why nothing more comes
	finished bool
}

const (
	readSize  = 32 << 10
	mostHeld  = 64 << 10 // of a stream's beginning
	drainSize = 64 << 10
)

// errCut says that an answer ended before its end.
var errCut = errors.New("llm: the provider's answer ended in the middle")

// relay waits for the first content of an answer and makes a relay its body, or says that
// the attempt has failed.
func (a *attempt) relay() {
	r := &relay{a: a, body: a.answer.Body, route: a.x.route, hides: a.asks, framing: a.framing()}
	r.more.L = &r.mu
	r.meter = a.route().NewMeter(r.written.Add)
	r.split = dialect.NewSplitter(r.framing)
	r.abroad = a.interpret(r.framing, r.split)
	a.observe()
	if r.framing != dialect.Whole { // what is hidden or added changes it
		a.answer.Header.Del("Content-Length")
		a.answer.ContentLength = -1
	}
	done := make(chan struct{})
	r.fetching = true
	go func() {
		r.fetch()
		close(done)
	}()
	timer := time.NewTimer(a.x.s.PreambleTime)
	defer timer.Stop()
	select {
	case <-done:
		if r.settled() {
			return
		}
	case <-timer.C:
		if r.late() {
			return
		}
	}
	a.answer.Body = r
}

// framing says how an answer is framed: by its type, as some servers do not stream although
// they are asked to.
func (a *attempt) framing() dialect.Framing {
	kind, _, _ := mime.ParseMediaType(a.answer.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		return dialect.Events
	case kind == "application/x-ndjson" || a.route().Dialect == dialect.Ollama && a.x.ask.Stream:
		return dialect.Lines
	case a.route().Array && a.x.ask.Stream:
		return dialect.Array
	}
	return dialect.Whole
}

// late lets a beginning through that has taken too long, without its content: from here on a
// failure is told in the stream. It reports true if it was one just now.
func (r *relay) late() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fetching {
		r.begun = true
		return false
	}
	return r.settledLocked()
}

// settled ends the attempt if its answer turned out to be a failure before it began.
func (r *relay) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settledLocked()
}

func (r *relay) settledLocked() bool {
	a := r.a
	switch {
	case r.begun:
		return false
	case r.failure != nil:
		a.judge(a.answer.StatusCode, r.failure)
	case r.end != nil && !errors.Is(r.end, io.EOF):
		a.failed = r.end
	default:
		r.begun = true // it is let through
		return false
	}
	_ = r.body.Close() // what is left of it is of no use
	r.finished = true
	health := a.health()
	if a.failed != nil {
		health = a.failure()
	}
	var used *dialect.Usage
	switch u, told := r.meter.Usage(); {
	case a.x.r.Context().Err() != nil: // the client has left
		used = r.used()
	case told && u.Output > 0:
		used = &u
	}
	a.end(used, health)
	a.answer = nil
	return true
}

// fetch reads the beginning of an answer, up to its first content.
func (r *relay) fetch() {
	buf := buffers.Get().(*[readSize]byte)
	defer buffers.Put(buf)
	for done := false; !done; {
		n, err := r.body.Read(buf[:])
		r.mu.Lock()
		r.take(buf[:n], err)
		done = r.begun || r.stage != dialect.Preamble || r.end != nil || r.failure != nil || len(r.out) > mostHeld
		r.fetching = !done
		r.more.Broadcast()
		r.mu.Unlock()
	}
}

// next reads on. The caller holds r.mu.
func (r *relay) next() {
	buf := buffers.Get().(*[readSize]byte)
	defer buffers.Put(buf)
	n, err := r.body.Read(buf[:])
	r.take(buf[:n], err)
}

// take takes in what was read. The caller holds r.mu.
func (r *relay) take(p []byte, err error) {
	if r.taken == len(r.out) {
		r.out, r.taken = r.out[:0], 0
	}
	r.split.Feed(p, r.pass)
	if err == nil {
		return
	}
	r.split.Close(r.pass)
	whole := r.framing == dialect.Whole || r.meter.Ended() || !r.route.Operation.UsesTokens()
	if r.conclude(whole); r.end != nil {
		return
	}
	r.end = err
	if !whole && r.begun && r.failure == nil {
		if r.open {
			r.out = append(r.out, "\n\n"...)
		}
		r.out = append(r.out, r.route.StreamFault(cutFault)...)
	}
	if errors.Is(err, io.EOF) && !whole {
		r.end = errCut
	}
}

var cutFault = dialect.Fault{Status: 502, Code: "upstream-cut", Message: "The provider's answer ended in the middle."}

// pass sends an event on.
func (r *relay) pass(e dialect.Event) {
	if r.end != nil { // it was broken off
		return
	}
	stage := dialect.Content
	if e.Part { // no meter looks into it
		r.written.Add(e.Raw)
	}
	if r.framing != dialect.Whole {
		stage = r.meter.Read(e)
	} else if !e.Part {
		r.meter.ReadWhole(e.Data)
		if r.stage == dialect.Preamble && dialect.IsError(e.Data) {
			stage = dialect.Failure
		}
	}
	if stage == dialect.Failure {
		r.failure = bytes.Clone(e.Data)
	}
	if e.Cut && stage != dialect.Failure && !r.meter.Ended() { // half an event is none
		return
	}
	out := e.Raw
	if r.abroad != nil {
		var err error
		if out, err = r.abroad.say(e, stage); err != nil {
			r.lose(err)
			return
		}
	}
	r.begun = r.begun || stage == dialect.Content || stage == dialect.Final
	r.stage = max(r.stage, stage)
	if stage == dialect.UsageOnly && r.hides {
		return
	}
	r.out, r.open = append(r.out, out...), e.Part
}

// conclude adds what ends an answer that is translated, if it is whole.
func (r *relay) conclude(whole bool) {
	if r.abroad == nil || !whole || r.failure != nil || r.end != nil {
		return
	}
	out, err := r.abroad.end()
	if err != nil {
		r.lose(err)
		return
	}
	r.out = append(r.out, out...)
}

// lose breaks off an answer that cannot be translated.
func (r *relay) lose(err error) {
	r.end = err
	if r.begun {
		r.out = append(r.out, r.abroad.fault(lostFault(err))...)
	}
}

// Read implements io.Reader.
func (r *relay) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.taken == len(r.out) {
		switch {
		case r.fetching:
			r.more.Wait()
		case r.end != nil:
			r.finish()
			return 0, r.end
		default:
			r.next()
		}
	}
	n := copy(p, r.out[r.taken:])
	r.taken += n
	return n, nil
}

// Close implements io.Closer. An answer that is not at its end is given up, unless its
// provider charges for all of it anyhow.
func (r *relay) Close() error {
	if r.a.at.provider.Drain {
		go r.drain()
		return nil
	}
	r.a.cancel() // a Read that waits for the provider returns
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.fetching {
		r.more.Wait()
	}
	r.finish()
	return nil
}

// drain reads an answer to its end for what it says about usage.
func (r *relay) drain() {
	timer := time.AfterFunc(r.a.x.s.DrainTime, r.a.cancel)
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.fetching {
		r.more.Wait()
	}
	for r.end == nil {
		r.out, r.taken = r.out[:0], 0
		r.next()
	}
	r.finish()
}

// finish settles the attempt and the exchange by what was used. The caller holds r.mu.
func (r *relay) finish() {
	if r.finished {
		return
	}
	r.finished = true
	_ = r.body.Close() // nothing more is read
	a := r.a
	if r.failure != nil {
		a.verdict = upstream.Classify(upstream.Answer{Status: a.answer.StatusCode, Header: a.answer.Header, Body: r.failure, Received: time.Now()})
		a.cool()
	}
	health := a.health()
	if r.end != nil && !errors.Is(r.end, io.EOF) {
		health = r.end
	}
	if a.x.r.Context().Err() != nil || r.end == nil && !r.meter.Ended() {
		health = errNeutral // the client has left
	}
	used := r.used()
	a.end(used, health)
	a.x.close(a.answer.StatusCode, used)
}

// used is what the answer has used: what the provider says, and where it does not say, what
// was sent and what was passed on.
func (r *relay) used() *dialect.Usage {
	a := r.a
	u, _ := r.meter.Usage()
	if !a.x.route.Operation.UsesTokens() {
		return &u
	}
	if u.HasInput && (u.HasOutput || a.x.expect.requested == 0) && (r.meter.Ended() || r.framing == dialect.Whole) {
		if r.abroad == nil { // another tokenizer says nothing about this model's
			a.x.s.Estimator.Learn(a.x.key(), a.x.expect.input, u.Prompt(), u.Output/max(1, a.x.ask.Choices))
		}
		u.HasOutput = true
		return &u
	}
	if !u.HasInput {
		u.Input = a.x.expect.input.Reserve // all that was taken for it: more may have been read than is likely, and nobody says
	}
	if a.x.expect.requested != 0 && (!u.HasOutput || !r.meter.Ended()) {
		u.Output = max(u.Output, r.written.Tokens())
	}
	return &u
}
