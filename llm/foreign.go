package llm

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/translate"
	"github.com/sluicegate/sluice/upstream"
)

// A foreign is what becomes of a request at a place that speaks another dialect.
type foreign struct {
	said *translate.Translation // nil until its turn has come
	lost error                  // why it cannot be translated
}

// translate puts the request into the dialect of a place, if that is another one. Where that
// cannot be done without loss, the place is not asked, and the error is a [*translate.Loss].
func (x *exchange) translate(p *place) error {
	f := p.foreign
	if f == nil {
		return nil
	}
	if f.said == nil && f.lost == nil {
		if f.lost = x.foreseen(); f.lost == nil {
			f.said, f.lost = translate.Request(x.route, x.ask.Body(), translate.Options{Model: p.model, MaxOutput: x.model.MaxOutput,
				StreamUsage: p.provider.tellsUsage(), Created: x.began.Unix()})
		}
	}
	if f.lost != nil {
		p.until = never
	}
	return f.lost
}

// foreseen reports what beside the body asks for something that one dialect alone has.
func (x *exchange) foreseen() error {
	for _, name := range []string{"Anthropic-Beta", "Openai-Beta"} {
		if x.r.Header.Get(name) != "" {
			return &translate.Loss{Where: "the header " + strings.ToLower(name), Why: "is not known in the other dialect"}
		}
	}
	for name := range x.r.URL.Query() {
		if name = strings.ToLower(name); name != "api-version" && name != "key" {
			return &translate.Loss{Where: "the query", Why: "is not known in the other dialect"}
		}
	}
	return nil
}

// tellsUsage reports whether the provider's streams say what they used if they are asked to.
func (p *provider) tellsUsage() bool { return !p.NoStreamUsage && !p.plain.Load() }

// lost is why no place was asked that speaks another dialect, nil if that is not so.
func (x *exchange) lost() (l *translate.Loss) {
	for _, p := range x.places {
		if p.foreign == nil || p.foreign.lost == nil {
			return nil
		}
		l, _ = errors.AsType[*translate.Loss](p.foreign.lost)
	}
	return l
}

// route is what the request is for the provider.
func (a *attempt) route() dialect.Route {
	if a.said != nil {
		return a.said.Route
	}
	return a.x.route
}

// asksUsage reports whether usage is asked for in the client's stead.
func (a *attempt) asksUsage() bool {
	if a.said != nil {
		return a.said.AsksUsage
	}
	return a.x.ask.InjectsUsage() && a.at.provider.tellsUsage()
}

// asksNoMore remembers that the provider does not know how to say its usage.
func (a *attempt) asksNoMore() {
	a.at.provider.plain.Store(true)
	a.asked = true
	if f := a.at.foreign; f != nil {
		f.said = nil // it is put differently the next time
	}
}

// class is what the attempt has met, as far as it concerns other attempts.
func (a *attempt) class() upstream.Class {
	c := a.verdict.Class
	switch _, lost := errors.AsType[*lostError](a.failed); {
	case lost, a.said != nil && (c == upstream.Rejected || c == upstream.TooLarge):
		return upstream.Denied // not here; who speaks the client's dialect may do better
	case a.failed != nil:
		return upstream.Transient
	}
	return c
}

// foreignHeader is what a translated request has in place of the client's header: its
// credential, its account and its SDK are for another provider.
func foreignHeader(d dialect.Name) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"sluice"}}
	if d == dialect.Anthropic {
		h.Set("Anthropic-Version", "2023-06-01")
	}
	return h
}

// nameRequest gives the provider's name of the request the field in which the client's SDK
// looks for it.
func nameRequest(h http.Header, to dialect.Name) {
	from, into := "Request-Id", "X-Request-Id"
	if to == dialect.Anthropic {
		from, into = into, from
	}
	if id := h.Get(from); id != "" {
		h.Set(into, id)
	}
}

// passOnForeign puts a provider's error, whose body is in memory, into the client's dialect.
func (a *attempt) passOnForeign(f *dialect.Fault) {
	body, _ := io.ReadAll(a.answer.Body) // memory does not fail
	told := a.said.Fault(a.answer.StatusCode, body)
	told.Wait, told.Useless = f.Wait, f.Useless
	body = a.x.route.Dialect.Body(told)
	a.answer.StatusCode, a.answer.Status = told.Status, strconv.Itoa(told.Status)+" "+http.StatusText(told.Status)
	a.answer.Body, a.answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a.answer.Header.Set("Content-Type", "application/json")
	a.answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	nameRequest(a.answer.Header, a.x.route.Dialect)
}

// A lostError says that an answer cannot be translated. It is neither the provider's fault
// nor the client's.
type lostError struct{ error }

// Is implements the method that errors.Is looks for.
func (lostError) Is(target error) bool { return target == errNeutral }

// Bounds of what is held of an answer that is translated: an event of a stream, and an
// answer in one piece.
const (
	mostForeignEvent = 4 << 20
	mostForeignWhole = 32 << 20
)

// An interpreter translates an answer on its way to the client.
type interpreter struct {
	said   *translate.Translation
	to     dialect.Route
	status int
	stream *translate.Stream // nil of an answer in one piece
	buf    []byte
}

// interpret returns the interpreter of an answer that comes in another dialect than the
// client's, nil of one that does not, and lets split keep what it needs.
func (a *attempt) interpret(framing dialect.Framing, split *dialect.Splitter) *interpreter {
	if a.said == nil {
		return nil
	}
	h := a.answer.Header
	h.Del("Content-Length")
	a.answer.ContentLength = -1
	nameRequest(h, a.x.route.Dialect)
	i := &interpreter{said: a.said, to: a.x.route, status: a.answer.StatusCode}
	if framing == dialect.Whole {
		split.Hold(mostForeignWhole)
		return i
	}
	split.Hold(mostForeignEvent)
	i.stream = a.said.NewStream()
	return i
}

// say returns what an event is for the client. It is valid until the next call.
func (i *interpreter) say(e dialect.Event, stage dialect.Stage) (out []byte, err error) {
	switch {
	case stage == dialect.Failure:
		return i.fault(i.said.Fault(i.status, e.Data)), nil
	case i.stream != nil:
		i.buf, err = i.stream.Add(i.buf[:0], e)
		if out = i.buf; e.Cut && err != nil {
			return nil, nil // that it was cut is told
		}
	case e.Part:
		err = &translate.Loss{Why: "is too large"}
	default:
		out, err = i.said.Answer(e.Data)
	}
	if err != nil {
		err = &lostError{err}
	}
	return out, err
}

// end returns what ends the client's stream, if the provider's has not said it.
func (i *interpreter) end() (out []byte, err error) {
	if i.stream == nil {
		return nil, nil
	}
	if i.buf, err = i.stream.End(i.buf[:0]); err != nil {
		err = &lostError{err}
	}
	return i.buf, err
}

// fault is a fault in the middle of what the client reads.
func (i *interpreter) fault(f dialect.Fault) []byte {
	if i.stream == nil {
		return i.to.Dialect.Body(f)
	}
	return i.to.StreamFault(f)
}

// lostFault tells a client that its answer could not be translated.
func lostFault(err error) dialect.Fault {
	return dialect.Fault{Status: http.StatusBadGateway, Code: "untranslatable", Message: "The provider's answer cannot be put into this dialect: " + said(err) + "."}
}

// said is what a loss is, in the middle of a sentence.
func said(err error) string { return strings.TrimPrefix(err.Error(), "translate: ") }
