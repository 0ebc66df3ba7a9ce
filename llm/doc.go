// Package llm admits calls to language models and makes them: never over a provider's
// requests or tokens a minute, on any number of replicas, streams included.
//
// A [Gateway] is an http.Handler at which an official SDK's base URL is pointed, and an
// http.RoundTripper for programs in Go ([Gateway.Transport]); [Gateway.Reserve] is the same
// admission for whoever makes the calls by other means.
//
// # What is taken, and when
//
// A request is one call of kind [KindRequest] for its tenant and, each time it is sent
// somewhere, one call of kind [KindAttempt] for the provider, the model there and the
// credential. Either is taken before anything is sent, by an estimate, and settled when the
// answer has ended, by what the provider says was used. An attempt that fails without usage
// gives its tokens back; its place among the provider's requests stays taken, because the
// provider counts it too. The request counts once, however many attempts it needs.
//
// All waiting is under one deadline, all attempts are under one budget, and whatever was
// taken is settled and released exactly once by the object that took it, on a context that
// outlives the client.
//
// # What the client sees
//
// The bytes of the provider's answer. Nothing of a stream is let through before its first
// content, so that a failure up to there is met by another attempt, or another target; after
// that, a failure is told in the stream's own dialect. Usage that was asked for in the client's
// stead is not shown to it. Where a target says so ([Target].Translate) a provider of another
// dialect may answer: the client reads its own dialect then, and a request that cannot be
// translated without loss does not go there (package translate).
package llm
