package llm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/llm/dialect"
)

// Transport returns an http.RoundTripper for a program that calls providers by itself: set
// it in the http.Client of an official SDK. A request whose address is below a provider's
// BaseURL is admitted and made as the gateway does it, with retries, failover and settlement;
// any other goes out as it is.
//
// A refusal is an answer in the provider's dialect with X-Should-Retry, not an error, because
// SDKs take an error for a broken connection and try again. Switch off the SDK's own retries
// (option.WithMaxRetries(0)): the gateway has made those that help.
//
// Who asks is [WithCaller]'s; without it all requests are on one account. The answer's body
// has to be closed, as always: closing it settles the request.
func (g *Gateway) Transport() http.RoundTripper { return transport{g} }

type transport struct{ g *Gateway }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.g.settings.Load()
	name := s.below(r)
	if name == "" {
		return s.Base.RoundTrip(r)
	}
	if r.Body != nil {
		defer r.Body.Close()
	}
	in := r.Clone(r.Context())
	in.URL.Path = "/" + name + r.URL.Path
	who, _ := r.Context().Value(callerKey{}).(Caller)
	x, fault := s.newExchange(in, &who)
	var answer *http.Response
	if fault == nil {
		answer, fault = x.run()
	} else {
		x.close(fault.Status, nil)
	}
	switch {
	case r.Context().Err() != nil && fault != nil:
		return nil, context.Cause(r.Context())
	case fault != nil:
		answer = answerOf(x.route.Dialect, fault)
	}
	answer.Request = r
	return answer, nil
}

// below returns the provider below whose address a request goes, empty if there is none.
func (s *settings) below(r *http.Request) string {
	to := r.URL.Scheme + "://" + r.URL.Host + r.URL.Path
	for i := range s.Providers {
		base, _, _ := strings.Cut(s.Providers[i].BaseURL, modelPlace)
		base, _, _ = strings.Cut(base, "?")
		if rest, ok := strings.CutPrefix(to, strings.TrimSuffix(base, "/")); ok && (rest == "" || rest[0] == '/') {
			return s.Providers[i].Name
		}
	}
	return ""
}

// answerOf makes an answer of a fault.
func answerOf(d dialect.Name, f *dialect.Fault) *http.Response {
	body := d.Body(*f)
	answer := &http.Response{Status: fmt.Sprintf("%d %s", f.Status, http.StatusText(f.Status)), StatusCode: f.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	f.SetHeader(answer.Header)
	return answer
}

type callerKey struct{}

// WithCaller returns a context whose requests through [Gateway.Transport] are made on
// behalf of c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}
