package llm

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/upstream"
)

// send makes the attempt. Afterwards there is an answer, with what it means, or failed says
// why there is none. An answer that is OK closes the attempt when its body is closed; of any
// other the attempt is closed, and its body is in memory.
func (a *attempt) send() {
	ctx := a.x.r.Context()
	if a.at.provider.Drain {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, a.cancel = context.WithTimeoutCause(ctx, a.x.s.MaxDuration, errTooLong)
	a.asks = a.asksUsage()
	req, err := a.request(ctx)
	if err == nil {
		a.answer, err = a.x.s.Base.RoundTrip(req)
	}
	if err != nil {
		a.failed = err
		a.end(a.abandoned(), a.failure())
		return
	}
	if a.answer.StatusCode >= http.StatusBadRequest {
		a.refuse()
		return
	}
	if err := a.readable(); err != nil {
		_ = a.answer.Body.Close() // nobody can use it
		a.answer, a.failed = nil, err
		a.end(nil, err)
		return
	}
	a.relay()
}

var (
	errMoved   = errors.New("llm: the provider is at another address")
	errEncoded = errors.New("llm: the answer is compressed, which was not asked for")
)

// readable makes an answer one of which the usage can be read, or says why it is none. An
// answer that sends the client elsewhere is not let through: there, nobody counts.
func (a *attempt) readable() error {
	h := a.answer.Header
	if a.answer.StatusCode >= 300 && a.answer.StatusCode != http.StatusNotModified {
		return errMoved
	}
	switch coding := strings.ToLower(h.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		plain, err := gzip.NewReader(a.answer.Body)
		if err != nil {
			return errEncoded
		}
		a.answer.Body = unzipped{plain, a.answer.Body}
		a.answer.ContentLength, a.answer.Uncompressed = -1, true
		h.Del("Content-Encoding")
		h.Del("Content-Length")
	default:
		return errEncoded
	}
	return nil
}

// An unzipped is a body that was compressed.
type unzipped struct {
	io.Reader
	io.Closer
}

var errTooLong = errors.New("llm: the answer took too long")

// failure is what the breaker is told of an attempt without an answer: nothing, if it was
// the client that left.
func (a *attempt) failure() error {
	if a.x.r.Context().Err() != nil {
		return errNeutral
	}
	return a.failed
}

// abandoned is what an attempt without an answer has used whose client has left: the provider
// has read the request. One that failed by itself has used nothing.
func (a *attempt) abandoned() *dialect.Usage {
	if a.x.r.Context().Err() == nil || !a.x.route.Operation.UsesTokens() {
		return nil
	}
	return &dialect.Usage{Input: a.x.expect.input.Reserve}
}

// request is what is sent: the client's request with another address, another credential
// and, where needed, another model.
func (a *attempt) request(ctx context.Context) (*http.Request, error) {
	x, p := a.x, a.at.provider
	base, query, _ := strings.Cut(strings.ReplaceAll(p.BaseURL, modelPlace, url.PathEscape(a.at.model)), "?")
	path, asked, body := x.path, x.r.URL.RawQuery, net.Buffers(nil)
	if a.said != nil {
		path, asked, body = a.said.Path(), "", net.Buffers{a.said.Body}
	} else {
		body = x.ask.Rewrite(a.at.model, a.asks)
	}
	size := 0
	for _, piece := range body {
		size += len(piece)
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/") + a.route().Tail(path, a.at.model))
	if err != nil {
		return nil, fmt.Errorf("llm: the address of %s: %w", p.Name, err)
	}
	u.RawQuery = joinQuery(asked, query, a.holds())
	req := (&http.Request{Method: x.r.Method, URL: u, Host: u.Host, Header: a.header(), ContentLength: int64(size),
		Body: io.NopCloser(&body), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if size == 0 {
		req.Body = http.NoBody
	}
	return req, nil
}

// holds reports whether the credential that the client shows is none of the provider's
// business: the gateway has one, or it is the gateway's own.
func (a *attempt) holds() bool { return len(a.at.provider.Keys) > 0 || a.x.who.Own }

// joinQuery is the client's query with the provider's own, which counts where both say
// something, and without a credential that is the gateway's business.
func joinQuery(client, provider string, held bool) string {
	own, _ := url.ParseQuery(provider) // what cannot be read is sent as it is written
	var keep []string
	for pair := range strings.SplitSeq(client, "&") {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if pair != "" && err == nil && !own.Has(name) && !(held && slices.Contains(inQuery, strings.ToLower(name))) {
			keep = append(keep, pair)
		}
	}
	if provider != "" {
		keep = append(keep, provider)
	}
	return strings.Join(keep, "&")
}

// inQuery are parameters that carry credentials.
var inQuery = []string{"key", "access_token", "api-key", "api_key"}

// hop are the fields that are about one connection (RFC 9110, section 7.6.1), those that the
// gateway answers for itself, and those that make another request of this one.
var hop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Expect", "Accept-Encoding", "Cookie", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"X-Real-Ip", "Content-Length", "X-Should-Retry", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// accounts are the fields by which a client chooses whose limits and money count. They go
// with the credential.
var accounts = []string{"Openai-Organization", "Openai-Project", "X-Goog-User-Project"}

// header is the client's header with the provider's credential.
func (a *attempt) header() http.Header {
	p, h := a.at.provider, a.x.r.Header.Clone()
	if a.said != nil {
		h = foreignHeader(p.Dialect)
	}
	for _, field := range h.Values("Connection") {
		for name := range strings.SplitSeq(field, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hop {
		h.Del(name)
	}
	h.Set("Accept-Encoding", "identity") // usage is read from the bytes that pass
	if a.holds() {
		for _, name := range slices.Concat(credentialHeaders, accounts) {
			h.Del(name)
		}
	}
	if len(p.Keys) > 0 {
		name, value := keyField(p.Provider, a.at.key.Secret)
		h.Set(name, value)
	}
	for name, values := range p.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h
}

// keyField is the field that carries a credential to a provider.
func keyField(p *Provider, secret string) (name, value string) {
	switch {
	case p.KeyHeader != "" && !strings.EqualFold(p.KeyHeader, "Authorization"):
		return p.KeyHeader, secret
	case p.KeyHeader == "" && p.Dialect == dialect.Anthropic:
		return "X-Api-Key", secret
	case p.KeyHeader == "" && p.Dialect == dialect.Gemini:
		return "X-Goog-Api-Key", secret
	}
	return "Authorization", "Bearer " + secret
}

// maxRefusal is how much of a provider's error is read.
const maxRefusal = 256 << 10

// refuse reads an answer that is an error, and closes the attempt.
func (a *attempt) refuse() {
	late := time.AfterFunc(a.x.s.PreambleTime, a.cancel)
	defer late.Stop()
	body, err := io.ReadAll(io.LimitReader(a.answer.Body, maxRefusal))
	_ = a.answer.Body.Close() // what is left of it is of no use
	if err != nil {
		a.answer, a.failed = nil, err
		a.end(a.abandoned(), a.failure())
		return
	}
	a.answer.Body, a.answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a.answer.TransferEncoding = nil
	a.answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	a.judge(a.answer.StatusCode, body)
	if status := a.answer.StatusCode; a.asks && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) &&
		bytes.Contains(body, []byte("stream_options")) {
		a.asksNoMore()
	}
	a.end(nil, a.health())
}

// judge says what an error means, and starts the cooldowns that it asks for.
func (a *attempt) judge(status int, body []byte) {
	a.verdict = upstream.Classify(upstream.Answer{Status: status, Header: a.answer.Header, Body: body, Received: time.Now()})
	a.cool()
}

// health is what the breaker is told of an answer: a provider that refuses is well.
func (a *attempt) health() error {
	switch a.verdict.Class {
	case upstream.OK:
		return nil
	case upstream.Transient:
		return errors.New("llm: " + a.verdict.Code)
	}
	return errNeutral
}

// end closes the attempt: what it has used is charged, and who watches is told. Without
// usage its tokens come back.
func (a *attempt) end(used *dialect.Usage, health error) {
	if a.charge.closed.Load() {
		return
	}
	a.ended, a.used = time.Now(), used
	cost := nothing()
	if used != nil {
		cost = a.at.provider.accounting.settle(used, &a.x.model.Price)
	}
	a.charge.close(a.withOthers(slices.Clone(cost)))
	a.report(health)
	a.cancel()
	if f := a.x.s.Observer.Attempted; f != nil {
		e := Attempted{Provider: a.at.provider.Name, Model: a.named(), Credential: a.at.key.ID, Class: a.verdict.Class, Failed: a.failed != nil,
			Waited: a.waited, Took: a.ended.Sub(a.began), Reserved: a.charge.tokens, Settled: cost[0].N, Estimated: a.x.expect.input.Tokens,
			Levels: a.levels}
		if used != nil {
			e.Usage, e.Told = *used, used.HasInput && used.HasOutput
		}
		f(e)
	}
}

// named is the model's name if it may be shown: it is one of the configuration, or one that
// the provider knows. Anything else is text of the caller's.
func (a *attempt) named() string {
	m := a.x.model
	if a.failed == nil && a.verdict.Class == upstream.OK || m.Name == a.at.model ||
		slices.ContainsFunc(m.Targets, func(t Target) bool { return t.Model == a.at.model }) {
		return a.at.model
	}
	return ""
}
